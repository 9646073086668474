"""A made-up cluster for trials of a stream (`stateward try`): a topic whose records are made at a rate.

Its address has everything that a record is made of, so every process makes the same record of an offset,
however often it is read. Time passes as fast as the address says, from when the trial began.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from stateward.runtime.api.record_fields import EVENT_TIME, at_paths, time_in
from stateward.runtime.checkpoint.offsets import Range
from stateward.runtime.kafka.broker import Broker

_SCHEME = "rate:"
_PER_POLL = 500


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """What is made, and how fast.

    Attributes:
        per_second: Records per second of the wall clock.
        speed: How many seconds of the cluster's time pass in one of the wall clock.
        began_ms: When the trial began, milliseconds since 1970 UTC.
        key: The field with the stream's key, of which there are ``keys`` different values.
        keys: Their number.
        values: By field the values that it has at random; a null is left out.
        delay_ms: How much older than its record an event is at most.
        records: How many records are made in all; None for no end.
        paths: By field where it is in a record, unless it has its name there; without a path it is left out.
        time_unit: See `record_fields.Field.unit`.
    """

    per_second: float
    speed: float
    began_ms: int
    key: str
    keys: int
    values: Mapping[str, tuple[Any, ...]]
    delay_ms: int
    records: int | None = None
    paths: Mapping[str, tuple[str, ...]] = {}
    time_unit: str = "iso"

    @property
    def address(self) -> str:
        """The address of the cluster."""
        return _SCHEME + msgspec.json.encode(self).decode()

    def now_ms(self, wall_ms: float) -> int:
        """The cluster's time at a time of the wall clock; milliseconds since 1970 UTC."""
        return self.began_ms + int((wall_ms - self.began_ms) * self.speed)

    def end(self, wall_ms: float) -> int:
        """How many records there are."""
        made = max(0, int((wall_ms - self.began_ms) * self.per_second / 1000))
        return made if self.records is None else min(made, self.records)

    def record(self, topic: str, offset: int) -> Message:
        """The record of an offset, written when the cluster's time had come."""
        rng = random.Random(f"{topic}/{offset}")
        at_ms = self.now_ms(self.began_ms + (offset + 1) * 1000 / self.per_second)
        key = f"{self.key}-{rng.randrange(self.keys)}"
        chosen = {name: rng.choice(values) for name, values in self.values.items()}
        values = {
            "event_id": f"e{offset}",
            self.key: key,
            **{name: value for name, value in chosen.items() if value is not None},
            EVENT_TIME.name: time_in(self.time_unit, at_ms - rng.randint(0, self.delay_ms)),
        }
        places = {name: self.paths.get(name, (name,)) for name in values}
        document = at_paths({places[name]: value for name, value in values.items() if places[name]})
        return Message(
            topic=topic,
            partition=0,
            offset=offset,
            key=key.encode(),
            value=json.dumps(document).encode(),
            timestamp=(TIMESTAMP_LOG_APPEND_TIME, at_ms),
        )

    def read(self, wanted: Sequence[Range]) -> Iterator[list[Message]]:
        """As `reader.read`."""
        for one in wanted:
            for begin in range(one.begin, one.end, _PER_POLL):
                until = min(begin + _PER_POLL, one.end)
                yield [self.record(one.topic, offset) for offset in range(begin, until)]


def rate_at(address: str) -> Rate | None:
    """What is made at an address; None if it is that of a real cluster."""
    if not address.startswith(_SCHEME):
        return None
    return msgspec.json.decode(address.removeprefix(_SCHEME), type=Rate)


def _wall_ms() -> float:
    return time.time() * 1000


class RateCluster(Broker):
    """The requests to a made-up cluster; each topic has one partition."""

    def __init__(self, rate: Rate, wall_ms: Callable[[], float] = _wall_ms) -> None:
        super().__init__(rate.address)
        self._rate = rate
        self._wall_ms = wall_ms

    def partitions(self, topic: str) -> int:
        """One."""
        return 1

    def describe(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        """Every topic is there."""
        return {topic: (topic, 1) for topic in topics}

    def begin_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """Nothing is deleted."""
        return dict.fromkeys(range(partitions), 0)

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """How many records there are."""
        return dict.fromkeys(range(partitions), self._rate.end(self._wall_ms()))

    def append_time(self, topic: str) -> int:
        """The cluster's time."""
        return self._rate.now_ms(self._wall_ms())


def cluster_at(address: str) -> Broker:
    """The cluster at an address, real or made up."""
    rate = rate_at(address)
    return Broker(address) if rate is None else RateCluster(rate)


@dataclass
class RateClock:
    """The time of a made-up cluster; see `broker_clock.BrokerClock`.

    Attributes:
        topic: Any.
    """

    topic: str = field(default="")

    def now_ms(self, broker: Broker) -> int:
        """The cluster's time, ms since 1970 UTC."""
        return broker.append_time(self.topic)
