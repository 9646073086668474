"""Proves a stream right on traffic whose outcome is known: every table, dead letter, late event and count."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from proof.traffic.generate import Plan
from proof.traffic.records import Slice
from tests.support.spark.killed_driver import Driven
from tests.support.spark.launches import Launch
from tests.support.streams.counted import Counted
from tests.support.streams.landed import Landed
from tests.support.streams.traced import Traced

# After what the status says last: a kill comes anywhere in a batch, and not only behind its commit.
_LONGEST_PAUSE_S = 1.5
# The share of a part after which it is too late to find the driver at work.
_LATEST_KILL = 0.6


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

    def finish(self, driven: Driven) -> None:
        """Send what is left, and wait until all of it is done."""

    def wrong(self) -> dict[str, Any]:
        """The problems of a drained stream's output; empty if there are none."""

    def row_counts(self) -> dict[str, int]:
        """How many rows each table has to have; after `wrong`."""


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
