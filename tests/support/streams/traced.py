"""Traffic for a stream whose every row is known in advance."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Protocol

from proof.traffic.generate import Plan, Traffic
from proof.traffic.records import Record, Slice
from proof.truth.expected import Expected
from proof.truth.registry import truth_about
from stateward.project.spec import load_spec
from stateward.replay.pacing import Pacer
from stateward.replay.send import Sender
from stateward.runtime.api.config import parse_config
from tests.support.spark.launches import Launch
from tests.support.streams.oracle import difference, found_rows, in_order

COUNTS = ("accepted", "dead", "late", "duplicates", "tick_records")


class Watched(Protocol):
    """A driver whose status can be waited for."""

    def wait(self, what: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a status of it."""


class Traced:
    """`traffic_proof.Course` of a stream by event time: traffic on its way, of which the truth is kept.

    Args:
        launch: The stream, and the topic it reads.
        plan: What is made; its one topic is the one that the stream reads by its YAML.
    """

    changes: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, launch: Launch, plan: Plan) -> None:
        recorded_ms = int(time.time() * 1000)
        self._truth = truth_about(parse_config(launch.document(), "test"), recorded_ms)
        self._launch = launch
        self._traffic = Traffic(plan)
        self._sender = Sender(launch.broker.bootstrap, launch.topic)
        self._pacer = Pacer(None, time.monotonic, time.sleep)
        self._expected: Expected | None = None
        self.sent = 0

    @property
    def topics(self) -> tuple[str, ...]:
        """What the stream reads."""
        return (self._launch.topic,)

    def parts(self, count: int) -> list[list[Slice]]:
        """The first phase, cut into parts of about as many records each."""
        return in_parts(self._traffic.slices(), count)

    def send(self, slices: Iterable[Slice]) -> None:
        """Send slices as `proof.traffic` does."""
        for piece in slices:
            self._send(piece.records)

    def finish(self, driven: Watched) -> None:
        """Let every timeout pass by ticks in the topic, send what is late, and wait until all is done."""
        last = self.end()
        driven.wait("the watermark passes the end", lambda status: _is_beyond(status["watermark"], last))
        self.send_late()
        driven.wait(
            "all is delivered and no state is left",
            lambda status: status["delivered"] == self.sent and status["state_rows"] == 0,
        )

    def end(self) -> datetime:
        """Send the ticks that end the first phase; returns the largest event time."""
        (last,) = self._traffic.last_event.values()
        longest = load_spec(self._launch.stream.name).longest_timeout
        self._sender.send_ticks(last + longest, self._launch.partitions)
        return last

    def send_late(self) -> None:
        """Send the second phase."""
        self.send(self._traffic.late())

    def wrong(self) -> dict[str, Any]:
        """What of the output is not as expected; empty if nothing is."""
        expected = self._expected = self._expected or self._truth.finish()
        launch = self._launch
        wanted = {table: in_order(rows) for table, rows in expected.tables.items()}
        wrong = difference(found_rows(launch), wanted)
        for table, rows in (("dead_letters", expected.dead_letters), ("late_events", expected.late_events)):
            if found := surplus_and_missing(launch.rows(table), rows):
                wrong[table] = found
        return wrong | wrong_counts(launch, {**expected.counts, "tick_records": launch.partitions})

    def row_counts(self) -> dict[str, int]:
        """How many rows each table has to have; after `wrong`."""
        assert self._expected is not None
        return {table: len(rows) for table, rows in self._expected.tables.items()}

    def _send(self, records: list[Record]) -> None:
        self._sender.send_records(((record.key, record.value) for record in records), self._pacer)
        for record in records:
            self._truth.see(record)
        self.sent += len(records)


def in_parts(slices: Iterable[Slice], count: int) -> list[list[Slice]]:
    """Slices in parts of about as many records each."""
    slices = list(slices)
    parts: list[list[Slice]] = [[] for _ in range(count)]
    share, made = sum(len(piece.records) for piece in slices) / count, 0
    for piece in slices:
        parts[min(count - 1, int(made / share))].append(piece)
        made += len(piece.records)
    return parts


def wrong_counts(launch: Launch, expected: Mapping[str, int]) -> dict[str, Any]:
    """What ``batch_counts`` adds up to, if that is not as expected."""
    batches = launch.rows("batch_counts")
    counted = {name: sum(row[name] for row in batches) for name in COUNTS}
    return {} if counted == expected else {"batch_counts": {"found": counted, "expected": expected}}


def surplus_and_missing(
    found: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> dict[str, list[str]] | None:
    """Rows that only one side has, by the columns of what is wanted; None if there are none."""
    # Without a row that is wanted any row is one too many.
    names = list((wanted or found or [{}])[0])
    # As values: the same time is written differently by different producers.
    here = Counter(tuple(row[name] for name in names) for row in found)
    there = Counter(tuple(row[name] for name in names) for row in wanted)
    if here == there:
        return None
    return {
        "surplus": [str(row)[:300] for row in here - there][:3],
        "missing": [str(row)[:300] for row in there - here][:3],
    }


def _is_beyond(watermark: str | None, last: datetime) -> bool:
    return watermark is not None and datetime.fromisoformat(watermark) > last
