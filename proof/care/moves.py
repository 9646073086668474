"""The policy `auto` on the real platform with a day of minutes: the load grows and falls, the state follows.

One stream, `user_sessions`, whose care runs on its schedule once a day. The load is raised three times and
lowered three times, each time when the partitions have followed. In the end every row is compared with the
oracle's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import yaml

from proof.care.load import TOPIC, Load
from proof.care.measured_moves import Options, Outcome, moves_of
from proof.chaos.verdict import rows_of, wrong_balance, wrong_output
from proof.truth.expected import Expected
from proof.truth.registry import truth_about
from stateward.contract.state_care import CareRecord
from stateward.control.care.record import read_record
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.durations import format_duration
from stateward.project.settings import CHECKOUT
from stateward.project.spec import load_spec
from stateward.replay.tick import tick_after
from stateward.runtime.api.config import parse_config
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.waiting import wait_until

STREAM = "user_sessions"
_PARTITION_BYTES = 300_000
_FIRST_USERS = 1_000
_PATIENCE_S = 420.0
_POLL_S = 0.5

Say = Callable[[str], None]


def run_moves(folder: Path, options: Options, say: Say) -> Outcome:
    """Run with a new installation in an empty folder.

    Raises:
        AssertionError: It did not start, or a move did not come in time.
    """
    with _platform(folder, options) as stream:
        say(f"the platform is up in {stream.installation.settings.home}")
        run = _Run(stream, options, say)
        run.follow()
        run.finish()
    run.judge()
    return run.outcome


@contextmanager
def _platform(folder: Path, options: Options) -> Iterator[LiveStream]:
    installation = Installation.in_folder(folder / "home", streams=_streams_in(folder / "streams", options))
    # One core, so that the number of partitions is the same on every machine: it is a multiple of the cores.
    connection = f"AIRFLOW_CONN_{installation.settings.spark_conn_id.upper()}"
    os.environ.setdefault(connection, '{"conn_type": "spark", "host": "local[1,4]"}')
    try:
        installation.must_run("up")
        yield LiveStream(STREAM, installation)
    finally:
        installation.must_run("down")


def _streams_in(folder: Path, options: Options) -> Path:
    folder.mkdir(parents=True)
    document = yaml.safe_load((CHECKOUT / "include" / "streams" / f"{STREAM}.yaml").read_text())
    document.pop("quality", None)
    document |= {
        # So many buckets that each number of partitions is even.
        "state": {"partitions": options.levels[0], "buckets": 512},
        "savepoints": None,
        "state_care": {
            "schedule": f"*/{options.minutes} * * * *",
            "window": "1h",
            "policy": "auto",
            "looks": options.looks,
            "day": format_duration(options.day),
            "limits": {"partition_bytes": _PARTITION_BYTES},
        },
    }
    (folder / f"{STREAM}.yaml").write_text(yaml.safe_dump(document))
    return folder


class _Run:
    """The steps of a run: `follow`, `finish`, `judge`."""

    def __init__(self, stream: LiveStream, options: Options, say: Say) -> None:
        self._stream, self._options, self._say = stream, options, say
        self._settings = stream.installation.settings
        self._load = Load(self._settings.kafka_bootstrap, stream.counted, self._wait)
        self._began_ms = int(time.time() * 1000)
        self.outcome = Outcome(datetime.now(UTC))

    def follow(self) -> None:
        """Raise and lower the load, and wait each time until the partitions have followed."""
        self._stream.trigger("run")
        self._stream.wait_running(_PATIENCE_S)
        self._load.level(_FIRST_USERS)
        per_key = self._bytes_per_key()
        self._say(f"{_FIRST_USERS} keys of {per_key:.0f} bytes")
        self.outcome.began = datetime.now(UTC)
        for wanted in self._options.levels[1:]:
            # Not in the moment of a look: events that the watermark has not passed yet count twice as much.
            self._wait_look()
            users = int((wanted - 0.5) * _PARTITION_BYTES / per_key)
            self._load.level(users)
            self._say(f"{self._minute():5.1f} min  {users} users, for {wanted} partitions")
            self._wait_followed(wanted)

    def finish(self) -> None:
        """Let every session end, and stop everything."""
        load, stream = self._load, self._stream
        load.settle()
        load.tick(tick_after(TOPIC, self._settings.streams))
        self._wait(lambda: stream.status().get("state_rows") == 0, "no session is open")
        self.outcome.moves = moves_of(stream, self._record(), self._committed())
        self.outcome.records = len(load.sent)
        stream.trigger("stop")
        self._wait(lambda: stream.status().get("state") == "stopped", "the stream has stopped")

    def judge(self) -> None:
        """Compare every row and every count with those of the oracle."""
        expected, found = self._expected(), self.outcome
        found.rows = sum(map(len, expected.tables.values()))
        found.wrong = wrong_output(self._stream.layout, STREAM, expected)
        found.wrong |= wrong_balance({STREAM: self._stream.status()})
        wanted = list(pairwise(self._options.levels))
        made = [(one.before, one.after) for one in found.moves]
        if made != wanted:
            found.wrong["moves"] = {"found": made, "expected": wanted}

    def _expected(self) -> Expected:
        spec = load_spec(STREAM, self._settings.streams)
        config = parse_config(resolved_configuration(spec, self._settings, "care"), "care")
        truth = truth_about(config, self._began_ms)
        for record in self._load.sent:
            truth.see(record)
        expected = truth.finish()
        expected.counts["tick_records"] = self._load.ticks
        return expected

    def _bytes_per_key(self) -> float:
        """The size of a key with its state, once no event is held back by the watermark."""

        def passed() -> bool:
            watermark = self._stream.status().get("watermark")
            return watermark is not None and datetime.fromisoformat(watermark) > self._load.opened

        self._wait(passed, "the watermark passes the first events")
        status = self._stream.status()
        return float(status["live_bytes"] / status["state_keys"])

    def _wait_look(self) -> None:
        """Wait until the state was looked at once more."""
        before = len(self._record().looks)
        patience_s = 2 * self._options.day.total_seconds() + _PATIENCE_S
        self._wait(lambda: len(self._record().looks) > before, "the state is looked at", patience_s)

    def _wait_followed(self, wanted: int) -> None:
        """Wait until a change to so many partitions has ended."""
        patience_s = 2 * (self._options.looks + 2) * self._options.day.total_seconds() + 2 * _PATIENCE_S

        def followed() -> bool:
            self._note()
            made = self._record().changes
            return bool(made) and made[-1].outcome != "begun" and made[-1].after == wanted

        self._wait(followed, f"{wanted} partitions", patience_s)
        change = self._record().changes[-1]
        self._say(
            f"{self._minute():5.1f} min  {change.before} to {change.after} partitions: {change.outcome}"
        )
        assert change.outcome == "done", self._described()

    def _note(self) -> None:
        """Note the live keys, if a driver runs."""
        status, keys = self._stream.status(), self.outcome.keys
        found = status.get("state_keys")
        if status.get("state") == "running" and found is not None and (not keys or keys[-1][1] != found):
            keys.append((datetime.now(UTC), float(found)))

    def _record(self) -> CareRecord:
        return read_record(self._stream.layout, STREAM)

    def _committed(self) -> list[datetime]:
        return sorted(row["committed_at"] for row in rows_of(self._stream.layout, "batch_counts", STREAM))

    def _wait(self, condition: Callable[[], bool], what: str, patience_s: float = _PATIENCE_S) -> None:
        wait_until(condition, patience_s, lambda: f"{what}: {self._described()}", poll_s=_POLL_S)

    def _described(self) -> str:
        record = self._record()
        return f"looks {record.looks[-3:]}; changes {record.changes[-2:]}; {self._stream.describe()}"

    def _minute(self) -> float:
        return (datetime.now(UTC) - self.outcome.began).total_seconds() / 60
