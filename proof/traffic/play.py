"""Plays traffic: generates it, sends it, and writes the expected output."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from proof.traffic.counters import Tally
from proof.traffic.generate import Plan, Traffic
from proof.traffic.readers import (
    problem_of,
    readers_of,
    require_not_passed,
    running_readers,
    wait_until_passed,
)
from proof.traffic.records import Slice, to_ms
from proof.traffic.target import KafkaTarget
from proof.traffic.truth import TruthProcess
from stateward.contract.storage import write_json
from stateward.control.launchers.launch import resolved_configuration
from stateward.platform.report import stream_reports
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec
from stateward.replay.pacing import Pacer
from stateward.replay.records import MAX_AHEAD
from stateward.replay.tick import tick_after

EXPECTED, MANIFEST = "expected", "manifest.json"
_RUN_ID = "traffic"

Manifest = dict[str, Any]
OnSlice = Callable[[int], None]


class TooRecentError(ValueError):
    """The traffic, or what has to come after it, would be in the future."""


@dataclass(frozen=True)
class Playing:
    """Options of playing a plan.

    Attributes:
        plan: What is made.
        settings: The installation.
        send: Whether it is sent, or only made.
        tick: Whether each topic ends with a tick, so that every timeout passes.
        late: Whether the second phase follows.
        deadline: How long the second phase may wait for the streams.
        paced: Whether the rate is kept; else it is sent as fast as the broker takes it.
        partitions: Partitions of a topic that has to be created.
        out: Folder for the manifest and the expected rows, or None.
    """

    plan: Plan
    settings: Settings
    send: bool = True
    tick: bool = True
    late: bool = False
    deadline: timedelta = timedelta(minutes=10)
    paced: bool = False
    partitions: int = 3
    out: Path | None = None


def play(playing: Playing, now: datetime, on_slice: OnSlice = lambda count: None) -> Manifest:
    """Play traffic.

    Args:
        playing: What, and how.
        now: The time.
        on_slice: Called with the number of records of each slice.

    Returns:
        What `manifest.json` says (docs/traffic.md).

    Raises:
        TooRecentError: Events or ticks would be in the future.
        TooOldError: A stream is beyond the start already.
        NoReaderError: Late events were asked for, and no stream runs.
        WatermarkError: A stream did not get beyond the last event in time.
        DeliveryError: The broker did not take everything.
        TruthProcessError: A record contradicts its mark.
    """
    traffic = Traffic(playing.plan)
    after = {topic: tick_after(topic, playing.settings.streams) for topic in traffic.topics}
    readers = readers_of(playing.settings, traffic.topics)
    _require_the_past(playing, after, now)
    awaited = _require_readers(playing, readers, now)
    with contextlib.ExitStack() as stack:
        truth = _truth(playing, readers, now)
        stage = _Stage(
            stack.enter_context(truth) if truth is not None else None,
            _target(playing, traffic.topics) if playing.send else None,
            on_slice,
        )
        stage.pass_on(traffic.slices())
        last_event = traffic.last_event
        ticks = {topic: last_event[topic] + after[topic] for topic in last_event} if playing.tick else {}
        stage.tick(ticks)
        if playing.late:
            wait_until_passed(
                playing.settings,
                awaited,
                last_event,
                playing.deadline,
                clock=time.monotonic,
                sleep=time.sleep,
            )
            stage.pass_on(traffic.late())
        topics = stage.topics(playing, last_event, ticks)
        streams = truth.finish() if truth is not None else {}
    manifest = _manifest(playing, topics, _judged(readers, topics, streams) if streams else {})
    if playing.out is not None:
        write_json(str(playing.out.absolute() / MANIFEST), manifest)
    return manifest


class _Stage:
    """The receivers of each slice."""

    def __init__(self, truth: TruthProcess | None, target: KafkaTarget | None, on_slice: OnSlice) -> None:
        self._truth = truth
        self._target = target
        self._on_slice = on_slice
        self._tally = Tally()

    def pass_on(self, slices: Iterable[Slice]) -> None:
        for piece in slices:
            self._tally.see(piece)
            if self._truth is not None:
                self._truth.see(piece)
            if self._target is not None:
                self._target.send(piece)
            self._on_slice(len(piece.records))

    def tick(self, moments: Mapping[str, datetime]) -> None:
        if self._target is not None:
            self._target.tick(moments)

    def topics(
        self, playing: Playing, last_event: Mapping[str, datetime], ticks: Mapping[str, datetime]
    ) -> dict[str, Any]:
        """The topics in the manifest."""
        partitions = self._target.partitions if self._target is not None else {}
        return {
            topic: {
                **counts,
                "partitions": partitions.get(topic, playing.partitions),
                "last_event": last_event[topic].isoformat() if topic in last_event else None,
                "tick": ticks[topic].isoformat() if topic in ticks else None,
            }
            for topic, counts in self._tally.by_topic().items()
        }


def _require_the_past(playing: Playing, after: Mapping[str, timedelta], now: datetime) -> None:
    # A later event is a dead letter, and a later tick is cut: the truth would be another.
    longest = max(after.values(), default=timedelta(0)) if playing.tick else timedelta(0)
    latest = now + MAX_AHEAD - longest - (playing.plan.latest_end - playing.plan.start)
    if playing.plan.start > latest:
        raise TooRecentError(
            f"--start: expected {latest.isoformat(timespec='seconds')} or earlier, so that nothing is in"
            f" the future, found {playing.plan.start.isoformat()}"
            + ("; with --no-tick it may be later, and the last timeouts stay open" if playing.tick else "")
        )


def _require_readers(playing: Playing, readers: list[StreamSpec], now: datetime) -> list[StreamSpec]:
    """Check that the streams can produce the expected output; returns the streams to wait for."""
    if not playing.send:
        return []
    reports = stream_reports(playing.settings, now)
    require_not_passed(readers, reports, playing.plan.start)
    return running_readers(readers, reports) if playing.late else []


def _target(playing: Playing, topics: tuple[str, ...]) -> KafkaTarget:
    pacer = Pacer(playing.plan.rate if playing.paced else None, time.monotonic, time.sleep)
    return KafkaTarget(playing.settings, topics, playing.partitions, pacer)


def _truth(playing: Playing, readers: list[StreamSpec], now: datetime) -> TruthProcess | None:
    if playing.out is None:
        return None
    known = [spec for spec in readers if problem_of(spec) is None]
    configurations = [resolved_configuration(spec, playing.settings, _RUN_ID) for spec in known]
    return TruthProcess(configurations, playing.out.absolute() / EXPECTED, to_ms(now))


def _judged(
    readers: list[StreamSpec], topics: Mapping[str, Any], streams: Mapping[str, Any]
) -> dict[str, Any]:
    """The streams in the manifest: their counts, or why these are unknown."""
    judged = {}
    for spec in readers:
        counts = dict(streams.get(spec.stream) or {"unknown": problem_of(spec)})
        if "unknown" not in counts:
            topic = topics[spec.source.names[0]]
            most_held = spec.logic.config().get("max_held_events")
            counts["tick_records"] = topic["partitions"] if topic["tick"] else 0
            counts["exact"] = most_held is None or counts["busiest_key"] <= most_held
        judged[spec.stream] = counts
    return judged


def _manifest(playing: Playing, topics: Mapping[str, Any], streams: Mapping[str, Any]) -> Manifest:
    plan = playing.plan
    return {
        "version": 1,
        "profile": plan.profile.name,
        "seed": plan.seed,
        "rate": plan.rate,
        "minutes": plan.minutes,
        "start": plan.start.isoformat(),
        "sent": playing.send,
        "late_phase": playing.late,
        "topics": dict(topics),
        "streams": dict(streams),
    }
