"""Proves a stream right on traffic whose outcome is known: every table, dead letter, late event and count."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from proof.traffic.generate import Plan, Traffic
from proof.traffic.records import Slice
from stateward.replay.records import TICK_KEY, tick_value
from tests.support.kafka.recording import Recorder
from tests.support.spark.killed_driver import Driven
from tests.support.spark.launches import Launch
from tests.support.streams.counted import Counted
from tests.support.streams.traced import COUNTS, Traced, Watched, in_parts, surplus_and_missing, wrong_counts

# After what the status says last: a kill comes anywhere in a batch, and not only behind its commit.
_LONGEST_PAUSE_S = 1.5
# The share of a part after which it is too late to find the driver at work.
_LATEST_KILL = 0.6
_TABLE = "raw_events"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Course(Protocol):
    """The traffic of one stream: how it is sent, how it ends, and what must have come of it.

    Attributes:
        sent: How many records were sent.
    """

    sent: int

    @property
    def topics(self) -> Sequence[str]:
        """What the stream reads, as the broker names it."""

    @property
    def changes(self) -> Mapping[str, Any]:
        """What the driver's configuration has other than the launch's."""

    def parts(self, count: int) -> list[list[Slice]]:
        """The first phase, cut into parts of about as many records each."""

    def send(self, slices: Iterable[Slice]) -> None:
        """Send slices as `proof.traffic` does."""

    def finish(self, driven: Watched) -> None:
        """Send what is left, and wait until all of it is done."""

    def wrong(self) -> dict[str, Any]:
        """The problems of a drained stream's output; empty if there are none."""

    def row_counts(self) -> dict[str, int]:
        """How many rows each table has to have; after `wrong`."""


class Landed:
    """`Course` of `raw_events`: every record has to be there once, as it was sent.

    Expected is what the broker has acknowledged, with the key and the value that were sent: a row for each
    topic, partition and offset, and no other.

    Args:
        launch: The stream; its topics are named after the launch's and those of the plan.
        plan: What is made.
    """

    def __init__(self, launch: Launch, plan: Plan) -> None:
        self._launch = launch
        self._traffic = Traffic(plan)
        self._recorder = Recorder(launch.broker.bootstrap)
        self._topics = {name: f"{launch.topic}-{name}" for name in self._traffic.topics}
        self.sent = 0

    @property
    def topics(self) -> tuple[str, ...]:
        """A topic for each that traffic is made for."""
        return tuple(self._topics.values())

    @property
    def changes(self) -> Mapping[str, Any]:
        """As in its YAML: several topics, no ticks of its own, no state."""
        tick = {"mode": "off", "interval_ms": 1000}
        return {"topics": list(self.topics), "tick": tick, "state_partitions": 1}

    def parts(self, count: int) -> list[list[Slice]]:
        """The first phase, cut into parts of about as many records each."""
        return in_parts(self._traffic.slices(), count)

    def send(self, slices: Iterable[Slice]) -> None:
        """Send slices, each topic's to its own."""
        for piece in slices:
            records = ((record.key, record.value) for record in piece.records)
            self._recorder.send(self._topics[piece.topic], records)
        self.sent = len(self._recorder.placed)

    def finish(self, driven: Watched) -> None:
        """Send ticks, which are records like any other here, and the second phase."""
        for name, last in self._traffic.last_event.items():
            self._recorder.send_to_each(
                self._topics[name], self._launch.partitions, TICK_KEY, tick_value(last + timedelta(days=31))
            )
        self.send(self._traffic.late())
        driven.wait(
            "all is landed", lambda status: status["delivered"] == self.sent and status["lag_records"] == 0
        )

    def wrong(self) -> dict[str, Any]:
        """Rows that are missing, altered or there twice, and counts that do not add up."""
        launch = self._launch
        nothing = dict.fromkeys(COUNTS, 0)
        wrong = wrong_counts(launch, {**nothing, "accepted": self.sent})
        wanted = {_TABLE: self._rows(), "dead_letters": [], "late_events": []}
        for table, rows in wanted.items():
            if found := surplus_and_missing(launch.rows(table), rows):
                wrong[table] = found
        return wrong

    def row_counts(self) -> dict[str, int]:
        """A row for each record."""
        return {_TABLE: self.sent}

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": placed.topic,
                "partition": placed.partition,
                "offset": placed.offset,
                "record_timestamp": _EPOCH + timedelta(milliseconds=placed.at_ms),
                "date": (_EPOCH + timedelta(milliseconds=placed.at_ms)).date(),
                "key": placed.key,
                "value": placed.value,
                "header_names": None,
                "header_values": None,
            }
            for placed in self._recorder.placed
        ]


COURSES: Mapping[str, Callable[[Launch, Plan], Course]] = {"raw_events": Landed, "action_counts": Counted}
"""By stream; all others are `Traced`."""


@dataclass
class Proof:
    """The result of a run.

    Attributes:
        records: How many were sent, ticks aside.
        rows: By table how many rows were expected.
        kills: How often the driver was killed.
        kills_at_work: How often while records were waiting.
        seconds: How long it took.
        wrong: What was not as expected; empty if nothing was.
    """

    records: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    kills_at_work: int = 0
    seconds: float = 0.0
    wrong: dict[str, Any] = field(default_factory=dict)


def course_of(launch: Launch, plan: Plan) -> Course:
    """The traffic of a launch's stream."""
    return COURSES.get(launch.stream.name, Traced)(launch, plan)


def prove(launch: Launch, plan: Plan, kills: int, course: Course | None = None) -> Proof:
    """Play traffic to a driver that is killed at random moments while it is at work, and compare everything.

    Args:
        launch: The stream; its topics are new.
        plan: What is made; its seed decides the moments too.
        kills: How often the driver is killed.
        course: That of `course_of`, for who wants to ask it more.
    """
    began, rng, proof = time.monotonic(), random.Random(plan.seed), Proof()
    course = course or course_of(launch, plan)
    for topic in course.topics:
        launch.broker.create_topic(topic, launch.partitions)
    parts = course.parts(kills + 1)
    batch = max(200, plan.total // (6 * len(parts)))
    driven = Driven(launch, {**course.changes, "max_records_per_batch": batch})
    try:
        for part in parts:
            before = course.sent
            course.send(part)
            if proof.kills < kills:
                moment = before + int(rng.random() * _LATEST_KILL * (course.sent - before))
                proof.kills_at_work += driven.kill_once(moment, rng.random() * _LONGEST_PAUSE_S)
                proof.kills += 1
        course.finish(driven)
        driven.drain()
    finally:
        launch.kill_all()
    proof.wrong = course.wrong()
    proof.records, proof.rows = course.sent, course.row_counts()
    proof.seconds = round(time.monotonic() - began, 1)
    return proof
