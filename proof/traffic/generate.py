"""Traffic: the records of several topics, slice by slice of event time.

An event is sent at its time plus a delay, and in the order of these moments. Records of one slice may be in
the broker in any order across partitions, so a sender that waits for the broker after each slice never makes
an event late: the watermark is the largest time seen minus the allowed lateness, and::

    longest delay + one slice <= allowed lateness

Slices are made when they are asked for; what is kept is only what stories that have begun will still do.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

from proof.traffic.arrival_process import plan_of, zipf_bounds
from proof.traffic.profiles import Profile
from proof.traffic.records import DUPLICATE, EVENT, LATE, Clock, Record, Slice, from_ms, to_ms
from proof.traffic.topics.malformed import Draft, malformed, oversized
from proof.traffic.topics.registry import topics_named
from proof.traffic.topics.scenarios import Step, Topic

SLICE_MS = 20_000
LONGEST_DELAY_MS = 90_000
NEEDED_LATENESS = timedelta(milliseconds=SLICE_MS + LONGEST_DELAY_MS)
"""The least allowed lateness with which every event of the first phase is on time."""

LONGEST_STORY = timedelta(minutes=90)
"""A story begins within the span and ends at most so long after it."""

DEFAULT_START = datetime(2025, 1, 6, tzinfo=UTC)
_USUAL_DELAY_MS = 2_000


@dataclass(frozen=True)
class Plan:
    """The parameters that determine every byte.

    Attributes:
        profile: What traffic is like.
        seed: Seed of the random numbers.
        rate: Records a second of event time, over all topics.
        minutes: The span of event time in which stories begin.
        start: Where the span begins.
        topics: Their names; none stands for all. A topic's records do not depend on which others are made,
            except that all of the rate goes to those named.

    Raises:
        ValueError: A number is not above zero, the start has no zone, or a topic is unknown.
    """

    profile: Profile
    seed: int = 1
    rate: float = 200.0
    minutes: float = 5.0
    start: datetime = DEFAULT_START
    topics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.minutes <= 0:
            raise ValueError(
                f"--rate and --minutes: expected numbers above 0, found {self.rate:g} and {self.minutes:g}"
            )
        if self.start.tzinfo is None:
            raise ValueError(
                f"--start: expected a time with a zone such as 2025-01-06T00:00:00Z, found {self.start}"
            )
        topics_named(self.topics)

    @property
    def total(self) -> int:
        """How many records the first phase has, ticks aside."""
        return round(self.rate * self.minutes * 60)

    @property
    def span_ms(self) -> int:
        """The span in milliseconds, in whole slices."""
        return max(1, round(self.minutes * 60_000 / SLICE_MS)) * SLICE_MS

    @property
    def latest_end(self) -> datetime:
        """No event is later."""
        return self.start + timedelta(milliseconds=self.span_ms) + LONGEST_STORY


class Traffic:
    """The records of a plan.

    Attributes:
        plan: The plan.
        last_event: By topic the largest event time of what has been made so far.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        topics = topics_named(plan.topics)
        quotas = _shares(plan.total, [topic.weight for topic in topics])
        self._makers = [_Maker(topic, plan, quota) for topic, quota in zip(topics, quotas, strict=True)]

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics."""
        return tuple(maker.topic.name for maker in self._makers)

    @property
    def last_event(self) -> dict[str, datetime]:
        """By topic the largest time of the events made so far."""
        return {maker.topic.name: from_ms(maker.last_ms) for maker in self._makers if maker.last_ms}

    def slices(self) -> Iterator[Slice]:
        """Make the first phase, all topics side by side. Only once."""
        running = [(maker, maker.slices()) for maker in self._makers]
        while running:
            made = [(maker, pieces, next(pieces, None)) for maker, pieces in running]
            for maker, _, records in made:
                if records:
                    yield Slice(maker.topic.name, records)
            running = [(maker, pieces) for maker, pieces, records in made if records is not None]

    def late(self) -> Iterator[Slice]:
        """Make the second phase: new events of the span, to be sent when the watermark has passed it.

        To be asked for when the first phase is made.
        """
        for maker in self._makers:
            if records := maker.late():
                yield Slice(maker.topic.name, records)


class _Maker:
    """Makes the records of one topic."""

    def __init__(self, topic: Topic, plan: Plan, quota: int) -> None:
        self.topic = topic
        self.last_ms = 0
        self._plan = plan
        self._profile = plan.profile
        self._quota = quota
        self._seed = f"{plan.profile.name}/{plan.seed}/{topic.name}"
        self._rng = Random(self._seed)
        self._start_ms = to_ms(plan.start)
        self._clock = Clock()
        self._bounds = zipf_bounds(self._profile.keys, self._profile.skew)
        self._keys = [f"{topic.prefix}-{number:05d}" for number in range(self._profile.keys)]
        self._story_bounds = _bounds([story.weight for story in topic.stories])
        # By number of the slice: what arrives in it, to be put in order when it is complete.
        self._agenda: dict[int, list[tuple[int, int, Record]]] = defaultdict(list)
        self._made = self._numbered = self._told = self._broken = 0

    def slices(self) -> Iterator[list[Record]]:
        """Yield what arrives in each slice, in order."""
        count = self._plan.span_ms // SLICE_MS
        plan = plan_of(self._profile, self._rng, count, self._quota)
        for number, target in enumerate(plan):
            from_at = self._start_ms + number * SLICE_MS
            if number == count // 2:
                self._add_oversized(from_at)
            while self._made < target:
                self._begin(from_at + int(self._rng.random() * SLICE_MS))
            yield self._close(number)
        for number in range(count, max(self._agenda, default=-1) + 1):
            yield self._close(number)

    def late(self) -> list[Record]:
        """New events in the first half of the span, before the last event."""
        rng = Random(f"{self._seed}/late")
        latest_ms = min(self._plan.span_ms // 2, self.last_ms - self._start_ms)
        count = max(1, round(self._quota * self._profile.late)) if latest_ms > 0 else 0
        records = []
        for number in range(count):
            at_ms = self._start_ms + rng.randrange(latest_ms)
            key = self._keys[bisect(self._bounds, rng.random())]
            draft = self._draft(f"late{number:07d}", key, self.topic.ordinary.tell(rng)[0].members, at_ms)
            records.append(Record(LATE, key.encode(), draft.value()))
        return records

    def _close(self, number: int) -> list[Record]:
        arriving = self._agenda.pop(number, [])
        arriving.sort()
        return [record for _, _, record in arriving]

    def _begin(self, at_ms: int) -> None:
        """Begin what one key does."""
        rng = self._rng
        if rng.random() < self._profile.stories:
            story = self.topic.stories[bisect(self._story_bounds, rng.random())]
            self._told += 1
            self._play(f"{self.topic.prefix}-{story.name}-{self._told}", story.tell(rng), at_ms)
        else:
            key = self._keys[bisect(self._bounds, rng.random())]
            self._play(key, self.topic.ordinary.tell(rng), at_ms)

    def _play(self, key: str, steps: Sequence[Step], at_ms: int) -> None:
        """Put the events of a story on the agenda, with what goes wrong around them."""
        profile, draw = self._profile, self._rng.random
        for step in steps:
            if self._made >= self._quota:
                return
            event_ms = at_ms + step.after_ms
            if draw() < profile.malformed:
                draft = self._draft(self._next_id(), key, step.members, event_ms)
                self._add(event_ms, malformed(self.topic, self._broken, draft))
                self._broken += 1
                if self._made >= self._quota:
                    return
            draft = self._draft(self._next_id(), key, step.members, event_ms)
            record = Record(EVENT, key.encode(), draft.value())
            longest = LONGEST_DELAY_MS if draw() < profile.stragglers else _USUAL_DELAY_MS
            self._add(event_ms + int(draw() * longest), record)
            self.last_ms = max(self.last_ms, event_ms)
            if draw() < profile.duplicates and self._made < self._quota:
                self._add(event_ms + int(draw() * LONGEST_DELAY_MS), record._replace(mark=DUPLICATE))

    def _add_oversized(self, at_ms: int) -> None:
        for number in range(min(self._profile.oversized, self._quota - self._made)):
            members = self.topic.ordinary.tell(self._rng)[0].members
            draft = self._draft(self._next_id(), self._keys[number], members, at_ms)
            self._add(at_ms, oversized(draft))

    def _add(self, arrives_ms: int, record: Record) -> None:
        self._made += 1
        self._agenda[(arrives_ms - self._start_ms) // SLICE_MS].append((arrives_ms, self._made, record))

    def _draft(self, event_id: str, key: str, members: str, at_ms: int) -> Draft:
        return Draft(event_id, self.topic.key, key, members, self._clock.iso(at_ms))

    def _next_id(self) -> str:
        self._numbered += 1
        return f"e{self._numbered:09d}"


def _bounds(weights: Sequence[float]) -> list[float]:
    total, reached, bounds = sum(weights), 0.0, []
    for weight in weights:
        reached += weight / total
        bounds.append(reached)
    bounds[-1] = 1.0
    return bounds


def _shares(total: int, weights: Sequence[float]) -> list[int]:
    """Divide a number into whole parts; the first takes what is left over."""
    parts = [int(total * weight / sum(weights)) for weight in weights]
    return [total - sum(parts[1:]), *parts[1:]]
