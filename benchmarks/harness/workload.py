"""What every contestant reads: a deterministic stream of `user_events`, and the times and users behind it.

Events come at a fixed rate of event time, each by a random user, so that a user's events are exponentially
spaced and about one gap in five ends a session. Times are up to five seconds out of order and fall on whole
tenths of a second, so that gaps of exactly the session gap occur, where engines differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stateward.replay.records import TICK_KEY

GAP_MS = 30_000
LATENESS_MS = 5_000
TICK_USER = "tick"
# Well in the past, so that a stream that ticks by itself knows the topic for a replay.
FIRST_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z

_MEAN_INTERVAL_MS = 20_000
_END_AFTER_MS = 3_600_000
_GRAIN_MS = 100
_DAY_BEFORE = b"2023-12-31T00:00:00.000"
_SPOILT = _REPEATED, _LATE, _INVALID = "repeated", "late", "invalid"
_ZIPF_EXPONENT = 1.0
_TAILS = 1024
_CHUNK = 50_000
_TYPES = ("view", "click", "search", "cart", "pay", "login", "share", "rate")
# Payments as well: `fraud_watch` reads the same records, keyed by account.
_KINDS = ("transaction",) * 16 + (
    "authenticated",
    "authenticated",
    "review_confirmed",
    "case_closed",
    "case_closed",
    "refund",
)
_HEAD = b'{"event_id":"e%010d","user_id":"u%08d","account_id":"u%08d","event_time":"%bZ",'
_HEAD_BYTES = len(_HEAD % (0, 0, 0, b"2024-01-01T00:00:00.000"))

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """Parameters of one topic.

    Attributes:
        events: number of events.
        size: bytes of each record's value.
        keys: number of users.
        skew: `uniform`, or `zipf` with exponent 1.
        compression: codec of the producer: `none`, `lz4` or `zstd`.
        partitions: of the topic.
        seed: of the random numbers.
        spoilt_percent: additional records, in percent of the events, of each of three kinds, none of which
            counts: events that are repeated, events of the day before, and records that are not JSON.
    """

    events: int = 2_000_000
    size: int = 1000
    keys: int = 20_000
    skew: str = "uniform"
    compression: str = "lz4"
    partitions: int = 3
    seed: int = 7
    spoilt_percent: int = 0

    @property
    def name(self) -> str:
        """Short name for topics, charts and tables."""
        name = f"{self.events}-{self.size}B-{self.keys}keys-{self.skew}-{self.compression}"
        if self.partitions != Workload.partitions:
            name += f"-{self.partitions}partitions"
        return f"{name}-{self.spoilt_percent}spoilt" if self.spoilt_percent else name

    def topic(self, flush_users: bool) -> str:
        """Name of the topic: of its own where every user's sessions are ended by a record of that user."""
        return f"bench-{self.name}-flushed" if flush_users else f"bench-{self.name}"

    def records(self, flush_users: bool) -> int:
        """How many records the topic has, less the end of each partition."""
        count = self.events + (self.keys if flush_users else 0)
        if self.spoilt_percent:
            count += sum(spoilt_kind(self, number) is not None for number in range(self.events))
        return count

    def as_json(self) -> dict[str, Any]:
        """Return the parameters as a JSON object, as earlier results have them where nothing is spoilt."""
        return {name: value for name, value in asdict(self).items() if name != "spoilt_percent" or value}


@dataclass(frozen=True)
class Events:
    """Users and times of all events, in the order in which they are sent.

    Attributes:
        users: number of the user.
        times_ms: event time, milliseconds since 1970 UTC.
    """

    users: Integers
    times_ms: Integers


def generate(workload: Workload) -> Events:
    """Return the events of a workload: the same ones on every call."""
    random = np.random.default_rng(workload.seed)
    users = _users(workload, random)
    due = np.arange(workload.events) * (_MEAN_INTERVAL_MS / workload.keys)
    delays = random.integers(0, LATENESS_MS - _GRAIN_MS, workload.events)
    offsets = (due + LATENESS_MS - delays).astype(np.int64)
    return Events(users, FIRST_MS + offsets // _GRAIN_MS * _GRAIN_MS)


def _users(workload: Workload, random: np.random.Generator) -> Integers:
    if workload.skew == "uniform":
        return random.integers(0, workload.keys, workload.events)
    if workload.skew == "zipf":
        weights = np.cumsum(1.0 / np.arange(1, workload.keys + 1) ** _ZIPF_EXPONENT)
        ranks = np.searchsorted(weights, random.random(workload.events) * weights[-1])
        # Ranks must not follow the numbers: neighbours would share partitions and state blocks.
        shuffled: Integers = random.permutation(workload.keys)[ranks]
        return shuffled
    raise ValueError(f"skew: expected uniform or zipf, found {workload.skew!r}")


def records(workload: Workload, events: Events) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the records as (key, value), in chunks.

    Raises:
        ValueError: the size leaves no room for the fields.
    """
    tails = _tails(workload)
    for start in range(0, workload.events, _CHUNK):
        users = events.users[start : start + _CHUNK].tolist()
        times = events.times_ms[start : start + _CHUNK].astype("datetime64[ms]")
        texts = np.datetime_as_string(times).astype("S").tolist()
        numbers = range(start, start + len(users))
        chunk = [
            (b"u%08d" % user, _HEAD % (number, user, user, text) + tails[_tail_of(number)])
            for number, user, text in zip(numbers, users, texts, strict=True)
        ]
        yield _with_spoilt(workload, start, chunk) if workload.spoilt_percent else chunk


def spoilt_kind(workload: Workload, number: int) -> str | None:
    """Which record that does not count follows the event with that number, if one does.

    Events of the day before are in the second half: without a watermark nothing is late.
    """
    kind = number % 100 // workload.spoilt_percent
    if kind >= len(_SPOILT) or (_SPOILT[kind] == _LATE and number < workload.events // 2):
        return None
    return _SPOILT[kind]


def _with_spoilt(
    workload: Workload, start: int, chunk: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    found = []
    for number, (key, value) in enumerate(chunk, start):
        found.append((key, value))
        kind = spoilt_kind(workload, number)
        if kind == _REPEATED:
            found.append((key, value))
        elif kind == _LATE:
            user = int(key[1:])
            head = _HEAD % (workload.events + workload.keys + number, user, user, _DAY_BEFORE)
            found.append((key, head + value[_HEAD_BYTES:]))
        elif kind == _INVALID:
            found.append((key, value[:-1]))
    return found


def _tails(workload: Workload) -> list[bytes]:
    """The rest of a value, from `event_type` on: many short attributes, as wide events have them."""
    random = np.random.default_rng(workload.seed)
    alphabet = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", dtype=np.uint8)
    return [_tail(workload.size - _HEAD_BYTES, _fields(n), random, alphabet) for n in range(_TAILS)]


def payment(number: int) -> tuple[str, int]:
    """Kind and amount of the event with that number."""
    tail = _tail_of(number)
    return _KINDS[tail % len(_KINDS)], tail * 2


def _tail_of(number: int) -> int:
    return number * 7919 % _TAILS


def _fields(tail: int) -> bytes:
    kind, amount = _KINDS[tail % len(_KINDS)], tail * 2
    return f'"event_type":"{_TYPES[tail % len(_TYPES)]}","kind":"{kind}","amount":{amount}'.encode()


def _tail(room: int, fields: bytes, random: np.random.Generator, alphabet: npt.NDArray[np.uint8]) -> bytes:
    tail = fields
    number = 0
    # A last attribute takes what is left, so every value has exactly the wanted size.
    while room - len(tail) > 80:
        tail += b',"attribute_%02d":"%b"' % (number, random.choice(alphabet, 24).tobytes())
        number += 1
    left = room - len(tail) - len(b',"rest":""}')
    if left < 0:
        raise ValueError(f"size: expected at least {_HEAD_BYTES + 100} bytes for the fields")
    return tail + b',"rest":"%b"}' % random.choice(alphabet, left).tobytes()


def end_of_topic(events: Events) -> tuple[bytes, bytes]:
    """The last record of every partition, as (key, value): it moves watermarks past all sessions.

    To Stateward it is the end of a replay; to the others an event of a user of its own, an hour later.
    """
    end = _end_time(events)
    return (
        TICK_KEY,
        b'{"tick":"%b","event_id":"tick","user_id":"tick","event_time":"%b","event_type":"tick"}'
        % (
            end,
            end,
        ),
    )


def flush_records(workload: Workload, events: Events) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield one record per user, as (key, value), in chunks: for engines without timers for silent users."""
    tail = b'"event_type":"flush"}'
    end = _end_time(events).removesuffix(b"Z")
    for start in range(0, workload.keys, _CHUNK):
        users = range(start, min(start + _CHUNK, workload.keys))
        yield [(b"u%08d" % user, _HEAD % (workload.events + user, user, user, end) + tail) for user in users]


def end_ms(events: Events) -> int:
    """Event time of the last record of every partition, milliseconds since 1970 UTC."""
    return int(events.times_ms.max()) + _END_AFTER_MS


def _end_time(events: Events) -> bytes:
    return str(np.datetime_as_string(np.datetime64(end_ms(events), "ms"))).encode() + b"Z"
