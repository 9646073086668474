"""One run: traffic and faults on running streams, then a comparison of everything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import KafkaException

from proof.chaos.faults import FAULTS, NoVictimError
from proof.chaos.feed import Feed
from proof.chaos.installation import Platform, platform_in
from proof.chaos.progress import Gap, Hit, Miss
from proof.chaos.schedule import Planned, plan_faults
from proof.chaos.truths import LANDING, expected_of, in_kafka, topics_of, wrongly_sent
from proof.chaos.verdict import sent_twice, wrong_balance, wrong_output
from proof.chaos.watch import Nurse, Watch
from proof.traffic.generate import Plan
from proof.traffic.profiles import profile_named
from stateward.replay.tick import tick_after
from tests.support.waiting import wait_until

Say = Callable[[str], None]

_PATIENCE_S = 420.0
_POLL_S = 0.5


@dataclass(frozen=True)
class Options:
    """Options of a run.

    Attributes:
        streams: The streams that run.
        minutes: Duration of traffic and faults.
        seed: Seed of the traffic and of the faults.
        mean_gap_s: Mean time between two faults, seconds.
        rate: Records/s to each topic.
        profile: Profile of the traffic.
        faults: The kinds of faults.
    """

    streams: tuple[str, ...]
    minutes: float
    seed: int = 1
    mean_gap_s: float = 30.0
    rate: float = 20.0
    profile: str = "daily"
    faults: tuple[str, ...] = tuple(FAULTS)


@dataclass
class Outcome:
    """The outcome of a run.

    Attributes:
        hits: Injected faults.
        misses: Faults without a target.
        gaps: Times in which a stream made no progress while records were waiting.
        records: Number of records sent, without ticks.
        rows: Expected number of rows by stream.
        failures: Number of restarts after a failure, by stream.
        seconds: Duration of each step.
        wrong: The problems found; empty if there are none.
    """

    hits: list[Hit] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    records: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, Any] = field(default_factory=dict)


def run_chaos(folder: Path, options: Options, say: Say, keep: bool = False) -> Outcome:
    """Run with a new installation.

    Args:
        folder: An empty folder; it keeps the data of a failed run.
        options: Options of the run.
        say: Called with each event, a line of text.
        keep: Whether the tables are kept after a successful run.

    Raises:
        AssertionError: It did not start, or did not finish in time.
    """
    outcome = Outcome()
    with _Stopwatch(outcome, "in all"), platform_in(folder, options.streams) as platform:
        say(f"the platform is up in {platform.home}")
        run = _Run(platform, options, outcome, say)
        with _Stopwatch(outcome, "deploy"):
            platform.deploy()
        with run.watched():
            with _Stopwatch(outcome, "chaos"):
                run.chaos()
            with _Stopwatch(outcome, "recovery"):
                run.recover()
        with _Stopwatch(outcome, "end"):
            run.finish()
        with _Stopwatch(outcome, "compare"):
            run.judge()
        if outcome.wrong or keep:
            platform.keep_data()
    return outcome


class _Run:
    """The steps of a run; `chaos`, `recover`, `finish` and `judge`, in this order."""

    def __init__(self, platform: Platform, options: Options, outcome: Outcome, say: Say) -> None:
        settings = platform.installation.settings
        self._platform, self._options, self._outcome, self._say = platform, options, outcome, say
        self._feeds = [
            Feed(settings.kafka_bootstrap, _plan(options, topic)) for topic in topics_of(options.streams)
        ]
        platform.feeds = self._feeds
        self._began_ms = int(time.time() * 1000)
        self._began = time.monotonic()
        self._watch = Watch(platform, self._feeds, self._now)
        self._nurse = Nurse(platform, self._now, say)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Start the time and the observers."""
        self._began = time.monotonic()
        with self._watch.looking(), self._nurse.looking():
            yield
        self._outcome.gaps = self._watch.gaps()

    def chaos(self) -> None:
        """Send the first phase while faults are injected."""
        options = self._options
        weights = {name: FAULTS[name].weight for name in options.faults}
        planned = plan_faults(options.seed, options.minutes * 60, options.mean_gap_s, weights)
        self._say(f"{len(planned)} faults in {options.minutes:g} minutes")
        for feed in self._feeds:
            feed.start()
        for fault in planned:
            self._strike(fault)
        self._sleep_until(options.minutes * 60)

    def recover(self) -> None:
        """Wait until everything runs again and all records are read."""
        for disk in (self._platform.disk, self._platform.cache):
            disk.free()
        self._platform.wait_ready()
        for feed in self._feeds:
            feed.join()
        self._wait(lambda: not any(self._watch.waiting().values()), "every stream has caught up")

    def finish(self) -> None:
        """Let every timeout pass, send late events, wait until all is processed; then stop everything."""
        platform = self._platform
        for feed in self._feeds:
            after = tick_after(feed.topic, platform.installation.settings.streams)
            feed.tick(feed.last_event + after)
        self._wait(self._all_passed, "the watermark of every stream is beyond the last event")
        for feed in self._feeds:
            feed.send_late()
        self._wait(self._all_done, "all is read and no state is left")
        self._kafka = in_kafka(platform.installation.settings.kafka_bootstrap, self._feeds)
        self._nurse.look()
        self._outcome.failures = platform.failures()
        platform.down()

    def judge(self) -> None:
        """Compare everything, after the platform has stopped."""
        platform, outcome = self._platform, self._outcome
        outcome.records = sum(len(feed.sent) for feed in self._feeds)
        wrong: dict[str, Any] = {**wrongly_sent(self._feeds, self._kafka)}
        for stream, spec in platform.specs.items():
            expected = expected_of(
                spec, platform.installation.settings, self._feeds, self._kafka, self._began_ms
            )
            outcome.rows[stream] = sum(map(len, expected.tables.values()))
            if found := wrong_output(platform.layout, stream, expected):
                wrong[stream] = found
        wrong |= wrong_balance({stream: platform.status(stream) for stream in platform.streams})
        wrong |= sent_twice([*platform.home.rglob("alerts*.jsonl")])
        if left := platform.left_behind():
            wrong["processes left behind"] = left
        if self._nurse.needed:
            wrong["a person was needed"] = self._nurse.needed
        outcome.wrong = wrong

    def _strike(self, planned: Planned) -> None:
        outcome, fault = self._outcome, FAULTS[planned.kind]
        if self._now() > planned.at_s + 1:
            self._missed(planned, "another one was still being carried out")
            return
        self._sleep_until(planned.at_s)
        at_s = self._now()
        try:
            struck = fault.strike(self._platform, planned.dice)
        except (NoVictimError, psutil.Error, KafkaException) as error:
            self._missed(planned, str(error))
            return
        outcome.hits.append(Hit(round(at_s, 1), fault.name, struck.what, struck.stream))
        self._say(f"{at_s:6.1f} s  {fault.name}: {struck.what}")

    def _missed(self, planned: Planned, why: str) -> None:
        self._outcome.misses.append(Miss(round(planned.at_s, 1), planned.kind, why))
        self._say(f"{planned.at_s:6.1f} s  {planned.kind}: missed, {why}")

    def _all_passed(self) -> bool:
        """Whether the watermark of every stream that has one is past the last event of its topic."""
        last = {feed.topic: feed.last_event for feed in self._feeds}
        return all(
            _is_beyond(self._platform.status(stream).get("watermark"), last[spec.source.names[0]])
            for stream, spec in self._platform.specs.items()
            if stream != LANDING
        )

    def _all_done(self) -> bool:
        return all(self._done(stream, names) for stream, names in self._topics().items())

    def _topics(self) -> dict[str, Sequence[str]]:
        return {stream: spec.source.names for stream, spec in self._platform.specs.items()}

    def _done(self, stream: str, topics: Sequence[str]) -> bool:
        status = self._platform.status(stream)
        mine = [feed for feed in self._feeds if feed.topic in topics]
        sent = sum(len(feed.sent) for feed in mine)
        if stream == LANDING:
            # It counts ticks as records, and has no state.
            return bool(status.get("delivered") == sent + sum(len(feed.ticks) for feed in mine))
        return status.get("delivered") == sent and status.get("state_rows") == 0

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, _PATIENCE_S, lambda: f"{what}: {self._described()}", poll_s=_POLL_S)

    def _described(self) -> str:
        waiting = self._watch.waiting()
        return "; ".join(
            f"{stream}: {waiting[stream]} waiting, {self._platform.live(stream).describe()}"
            for stream in self._platform.streams
        )

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _sleep_until(self, at_s: float) -> None:
        time.sleep(max(0.0, at_s - self._now()))


class _Stopwatch:
    """Records the duration of a step in an outcome. Use as a context manager."""

    def __init__(self, outcome: Outcome, name: str) -> None:
        self._outcome, self._name = outcome, name

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._outcome.seconds[self._name] = round(time.monotonic() - self._began, 1)


def _plan(options: Options, topic: str) -> Plan:
    profile = profile_named(options.profile)
    return Plan(profile, seed=options.seed, rate=options.rate, minutes=options.minutes, topics=(topic,))


def _is_beyond(watermark: str | None, last: datetime) -> bool:
    return watermark is not None and datetime.fromisoformat(watermark) > last
