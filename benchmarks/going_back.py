"""`python -m benchmarks.going_back`: restore of a savepoint after an hour of further traffic.

Generated traffic (`proof.traffic`, by event time, as fast as it goes) is sent twice, to a topic each: to
a driver that is left alone, and to one that is drained early for a savepoint, goes on for an hour of event
time, is taken back to the savepoint, and reads that hour again. In the end every table of both must hold the
same rows, those that were known in advance, and no alert may be there twice.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness.environments import emptied
from benchmarks.harness.fill import benchmark_broker
from benchmarks.harness.operations import Operations
from benchmarks.harness.results import append_result
from proof.traffic.generate import SLICE_MS, Plan
from proof.traffic.profiles import PROFILES
from proof.traffic.records import Slice
from stateward.project.settings import Settings
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.killed_driver import Driven
from tests.support.spark.launches import FRAUD_WATCH, INTRUSION_PATTERNS, USER_SESSIONS, Launch, Stream
from tests.support.streams.oracle import STREAMS, difference, found_rows
from tests.support.streams.traced import Traced

RESULTS = "going_back.jsonl"
_STREAMS = {stream.name: stream for stream in (USER_SESSIONS, FRAUD_WATCH, INTRUSION_PATTERNS)}
# The table of each stream whose rows readers may act on, and the columns that identify a row.
_ACTED_ON = {
    "user_sessions": ("sessions", "session_id"),
    "fraud_watch": ("fraud_alerts", "alert_id"),
    "intrusion_patterns": ("intrusion_alerts", "alert_id"),
}
_EARLY_MIN, _GONE_ON_MIN, _AFTER_MIN = 10, 60, 5
_BATCHES = 60


def main(arguments: list[str]) -> int:
    """Run the drill on each stream, and print a line of JSON for each; returns 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.going_back", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--streams", default=",".join(_STREAMS), help="(%(default)s)")
    parser.add_argument("--profile", choices=PROFILES, default="daily")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument(
        "--rate", type=float, default=100, help="records a second of event time (%(default)s)"
    )
    given = parser.parse_args(arguments)
    cache = Settings().home / "bench"
    folder = emptied(cache / "going_back")
    wrong = 0
    with benchmark_broker(cache / "kafka") as broker:
        for name in given.streams.split(","):
            minutes = _EARLY_MIN + _GONE_ON_MIN + _AFTER_MIN
            profile = PROFILES[given.profile]
            plan = Plan(profile, given.seed, given.rate, minutes, topics=(STREAMS[name],))
            result = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "stream": name}
            result |= {"load_before": round(psutil.getloadavg()[0], 2), "profile": given.profile}
            result |= {"seed": given.seed, "rate": given.rate, **drill(broker, folder, _STREAMS[name], plan)}
            wrong += bool(result["wrong"])
            append_result(cache / RESULTS, result)
            print(json.dumps(result, default=str), flush=True)
    return 1 if wrong else 0


def drill(broker: RunningBroker, folder: Path, stream: Stream, plan: Plan) -> dict[str, Any]:
    """One stream, uninterrupted and restored; returns the figures and the problems."""
    alone = _play(_launch(broker, folder, stream, "alone"), plan, None)
    back = _launch(broker, folder, stream, "back")
    trip = Trip(back)
    disturbed = _play(back, plan, trip)
    wrong: dict[str, Any] = {
        "left alone": alone.traced.wrong(),
        "taken back": disturbed.traced.wrong(),
        "beside each other": difference(found_rows(back), found_rows(alone.launch)),
    }
    table, identity = _ACTED_ON[stream.name]
    rows = [row[identity] for row in back.rows(table)]
    wrong["twice in the end"] = len(rows) - len(set(rows))
    wrong["taken back and never written again"] = len(trip.figures.pop("ids") - set(rows))
    return {
        "records": disturbed.traced.sent,
        "rows": disturbed.traced.row_counts(),
        "distinct": {identity: len(set(rows))},
        **trip.figures,
        "seconds_left_alone": alone.seconds,
        "seconds_taken_back": disturbed.seconds,
        "wrong": {what: found for what, found in wrong.items() if found},
    }


@dataclass(frozen=True)
class Played:
    """Traffic that a stream has read to its end."""

    launch: Launch
    traced: Traced
    seconds: float


class Trip:
    """An early savepoint, and its restore an hour later.

    Args:
        launch: The stream.

    Attributes:
        figures: Duration of each step, and the amount of data moved.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.figures: dict[str, Any] = {}
        self._savepoint = ""
        self._table, self._identity = _ACTED_ON[launch.stream.name]
        self._rows_then: dict[str, int] = {}

    def save(self, driven: Driven) -> None:
        """Drain, create a savepoint, and continue."""
        driven.drain()
        done = Operations(self._launch, driven.run_id).run("savepoint", reason="early")
        self._savepoint = done.data["savepoint"]
        self._rows_then = self._rows()
        self.figures |= {"savepoint": {"seconds": done.seconds, "bytes": done.data["size"]}}
        driven.start_again()

    def go_back(self, driven: Driven, sent: int) -> None:
        """Drain, restore, and read the later records again, until all ``sent`` ones are read."""
        driven.drain()
        before = self._rows()
        ids = {row[self._identity] for row in self._launch.rows(self._table)}
        done = Operations(self._launch, driven.run_id).run("restore", savepoint=self._savepoint)
        after = self._rows()
        assert after == self._rows_then, (
            f"expected the rows of the savepoint {self._rows_then}, found {after}"
        )
        begun = time.monotonic()
        driven.start_again()
        _read(driven, sent)
        self.figures |= {
            "restore": {"seconds": done.seconds, "records_to_read_again": done.data["records"]},
            "rows_taken_back": {name: before[name] - after[name] for name in before},
            "reading_again_s": round(time.monotonic() - begun, 1),
            "ids": ids,
        }

    def _rows(self) -> dict[str, int]:
        return {table: len(self._launch.rows(table)) for table in self._launch.stream.tables}


def _play(launch: Launch, plan: Plan, trip: Trip | None) -> Played:
    """Send the traffic in three parts, and read it to the end."""
    begun = time.monotonic()
    launch.broker.create_topic(launch.topic, launch.partitions)
    traced = Traced(launch, plan)
    (slices,) = traced.parts(1)
    early, hour, rest = _cut(slices)
    driven = Driven(launch, {"max_records_per_batch": max(200, plan.total // _BATCHES)})
    try:
        traced.send(early)
        _read(driven, traced.sent)
        if trip:
            trip.save(driven)
        traced.send(hour)
        _read(driven, traced.sent)
        if trip:
            trip.go_back(driven, traced.sent)
        traced.send(rest)
        traced.finish(driven)
        driven.drain()
    finally:
        launch.kill_all()
    return Played(launch, traced, round(time.monotonic() - begun, 1))


def _cut(slices: Sequence[Slice]) -> tuple[list[Slice], list[Slice], list[Slice]]:
    """The traffic before the savepoint, in the hour after it, and after that."""
    per_minute = 60_000 // SLICE_MS
    first, second = _EARLY_MIN * per_minute, (_EARLY_MIN + _GONE_ON_MIN) * per_minute
    return list(slices[:first]), list(slices[first:second]), list(slices[second:])


def _read(driven: Driven, sent: int) -> Mapping[str, Any]:
    return driven.wait(f"{sent} records are read", lambda status: status["delivered"] == sent)


def _launch(broker: RunningBroker, folder: Path, stream: Stream, name: str) -> Launch:
    place = emptied(folder / f"{stream.name}-{name}")
    return Launch(place, broker, f"{stream.name}-{name}", driver_memory="1g", stream=stream)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
