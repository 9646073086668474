"""A stream on the lines of files, in plain Python: the parser, admission and logic that run in Spark.

Each line is read in a batch of its own, so it is late if an earlier line has moved the watermark past it.
After the last line the watermark passes everything, as after the end of a replay.
"""

from __future__ import annotations

import contextlib
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from stateward.project.project import own_line
from stateward.runtime.api.key_logic import KeyState, advance, next_timer
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.tables import DEAD_LETTERS, LATE_EVENTS
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.keyed.outcome import BucketOutput
from stateward.runtime.sink.output_rows import KIND_COUNTS, decode_rows, encode_rows
from stateward.runtime.watermark.topic_partitions import Topics
from stateward.trial.line_decoders import KeyedLines, NativeLines
from stateward.trial.made_values import TrialError

if TYPE_CHECKING:
    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.config import Config
    from stateward.runtime.api.stream_job import Output, StreamJob

Row = dict[str, Any]
_NOTHING: KeyState[Any, Any] = KeyState()


class Line(NamedTuple):
    """A line of a file.

    Attributes:
        file: Its name, for errors.
        topic: The topic of which it is a record.
        number: Its number, from 1; the record's offset is one less.
        value: The record.
    """

    file: str
    topic: str
    number: int
    value: bytes


@dataclass
class Found:
    """What a stream makes of lines.

    Attributes:
        rows: By table its rows; ``dead_letters`` and ``late_events`` among them.
        at_end: By table how many of its rows, the last ones, came after the last line.
        counts: Records, and their outcomes.
    """

    rows: dict[str, list[Row]] = field(default_factory=dict)
    at_end: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)


class StreamCodeError(TrialError):
    """The stream's own code has raised an error."""


def rows_of(job: AnyJob, config: Config, lines: Iterable[Line], now_ms: int) -> Found:
    """Run a stream on lines.

    Args:
        job: The stream, as configured.
        config: Its configuration.
        lines: The lines; of several topics one after the other.
        now_ms: The broker's time, milliseconds since 1970 UTC.

    Raises:
        StreamCodeError: The stream's code fails; the text says at which line.
        LookupInvalidError: A table of the stream's lookups is not there, or has other columns.
    """
    if isinstance(job, LandingJob):
        return _landed(job, lines, now_ms)
    if isinstance(job, NativeJob):
        return _native(job, config, list(lines), now_ms)
    return _Keyed(job, config).run(list(lines), now_ms)


def _message(line: Line, now_ms: int) -> Message:
    return Message(
        topic=line.topic,
        partition=0,
        offset=line.number - 1,
        value=line.value,
        timestamp=(TIMESTAMP_CREATE_TIME, now_ms),
    )


class _Watermark:
    """The watermark of topics: their largest event times, less the allowed lateness, and of these one."""

    def __init__(self, config: Config, lines: Iterable[Line]) -> None:
        topics = Topics(config.topics)
        self._lateness = {
            topics.slot(topic, 0): config.lateness_of(topic) for topic in {x.topic for x in lines}
        }
        self._one_of = max if config.watermark_policy == "max" else min
        self.ms = 0

    def follow(self, newest: Mapping[int, int]) -> bool:
        """Follow the largest event time of each slot; return whether the watermark has moved."""
        times = [newest[slot] - late for slot, late in self._lateness.items() if slot in newest]
        if not times or (self._one_of is min and len(times) < len(self._lateness)):
            return False
        return self.move(self._one_of(times))

    def move(self, to_ms: int) -> bool:
        """Move it, unless it is beyond that; return whether it has moved."""
        moved = to_ms > self.ms
        self.ms = max(self.ms, to_ms)
        return moved


class _Keyed:
    """Runs a keyed stream."""

    def __init__(self, job: StreamJob, config: Config) -> None:
        self._job = job
        self._config = config
        self._topics = Topics(config.topics)
        self._logic = job.logic(config)
        self._limits = config.limits
        self._codec: KeyStateCodec[Any, Any] = KeyStateCodec(job.state_type, job.event_type)
        self._states: dict[str, bytes] = {}
        self._due: dict[str, int] = {}
        self._timers: list[tuple[int, str]] = []
        self._values: dict[tuple[int, int], bytes] = {}
        self._outcome = self._output()

    def run(self, lines: list[Line], now_ms: int) -> Found:
        decoder = KeyedLines(self._job, self._config)
        watermark = _Watermark(self._config, lines)
        for line in lines:
            with _own_code(self._config, f"{line.file}:{line.number}"):
                self._take(line, now_ms, decoder, watermark)
        in_file, self._outcome = self._outcome, self._output()
        with _own_code(self._config, "after the last line"):
            while self._timers:
                watermark.move(self._timers[0][0])
                self._expire(watermark.ms)
        found = Found(counts=Counter(records=len(lines), others=sum(decoder.left_out.values())))
        _add(found, self._config, in_file)
        before = Counter({name: len(rows) for name, rows in found.rows.items()})
        _add(found, self._config, self._outcome)
        found.at_end = Counter({name: len(rows) for name, rows in found.rows.items()}) - before
        _add_letters(found, decoder.dead())
        return found

    def _take(self, line: Line, now_ms: int, decoder: KeyedLines, watermark: _Watermark) -> None:
        decoder.begin(line.topic, (0,))
        self._values[self._topics.slot(line.topic, 0), line.number - 1] = line.value
        packed = decoder.line(_message(line, now_ms), now_ms, watermark.ms)
        if packed is not None:
            self._step(packed[0], [packed], watermark.ms)
        arrival_ms = decoder.arrival_ms
        if watermark.follow(decoder.newest) if arrival_ms is None else watermark.move(arrival_ms):
            self._expire(watermark.ms)

    def _output(self) -> BucketOutput:
        values = self._values
        return BucketOutput(
            self._job.outputs, self._topics, 0, lambda places: {place: values[place] for place in places}
        )

    def _step(self, key: str, records: list[tuple[Any, ...]], watermark_ms: int) -> None:
        # Before the event a packed record has its key, slot, offset, timestamp and raw value.
        events = [self._event(record[5:]) for record in records]
        state = self._states.get(key)
        kept = _NOTHING if state is None else self._codec.decode(state)
        result = advance(self._logic, key, kept, events, watermark_ms=watermark_ms, limits=self._limits)
        self._outcome.watermark_ms = watermark_ms
        self._outcome.add(key, result, events, records)
        due_ms = next_timer(self._logic, key, result.kept, self._limits)
        if due_ms is None:
            self._states.pop(key, None)
            self._due.pop(key, None)
            return
        self._states[key] = self._codec.encode(result.kept)
        if self._due.get(key) != due_ms:
            self._due[key] = due_ms
            heapq.heappush(self._timers, (due_ms, key))

    def _event(self, values: tuple[Any, ...]) -> Any:
        names = self._job.event_type._fields
        if len(values) != len(names):
            raise TypeError(
                f"`event` of the declaration returned {len(values)} values for the {len(names)} of"
                f" {self._job.event_type.__name__} ({', '.join(names)})"
            )
        return self._job.event_type._make(values)

    def _expire(self, watermark_ms: int) -> None:
        while self._timers and self._timers[0][0] <= watermark_ms:
            due_ms, key = heapq.heappop(self._timers)
            if self._due.get(key) == due_ms:
                del self._due[key]
                self._step(key, [], watermark_ms)


def _native(job: NativeJob, config: Config, lines: list[Line], now_ms: int) -> Found:
    """All rows of a stream on Spark's operators, by its oracle."""
    found, events = Found(counts=Counter(records=len(lines))), list[Any]()
    inputs = dict(zip(config.topics, (one.name for one in job.inputs), strict=False))
    decoders = {line.topic: NativeLines(job, config, line.topic) for line in lines}
    for topic, decoder in decoders.items():
        decoder.begin(topic, (0,))
    watermark, ids = _Watermark(config, lines), set[tuple[str, str, str]]()
    for line in lines:
        decoder, name = decoders[line.topic], inputs.get(line.topic, "")
        parsed = decoder.line(_message(line, now_ms), now_ms, watermark.ms)
        watermark.follow({slot: at for one in decoders.values() for slot, at in one.newest.items()})
        if parsed is None:
            continue
        identity = (name, decoder.owner(parsed.record), parsed.record.event_id)
        found.counts["duplicates" if identity in ids else "accepted"] += 1
        ids.add(identity)
        with _own_code(config, f"{line.file}:{line.number}"):
            events.append(job.event(parsed.record, parsed.event_ms, *((name,) if job.inputs else ())))
    with _own_code(config, "the oracle or its rows"):
        rows = job.oracle(events, config)
        found.rows = {one.table.name: _rows(one, rows) for one in job.outputs}
    _add_letters(found, [letter for one in decoders.values() for letter in one.dead()])
    late = [row for one in decoders.values() for row in one.late()]
    found.rows[LATE_EVENTS.name] = _decoded(encode_rows(LATE_EVENTS, late))
    found.counts["late"] = len(late)
    return found


def _landed(job: LandingJob, lines: Iterable[Line], now_ms: int) -> Found:
    rows = [job.row(_message(line, now_ms)) for line in lines]
    counts = Counter(records=len(rows), accepted=len(rows))
    return Found({job.output.table.name: _decoded(encode_rows(job.output.table, rows))}, counts=counts)


def _rows(output: Output, rows: Iterable[tuple[Any, ...]]) -> list[Row]:
    return _decoded(encode_rows(output.table, [row for row in rows if type(row) is output.row]))


def _decoded(data: bytes) -> list[Row]:
    return list(decode_rows(data).to_pylist())


def _add(found: Found, config: Config, outcome: BucketOutput) -> None:
    with _own_code(config, "the rows of its tables"):
        for kind, _, data in outcome.parts():
            if kind != KIND_COUNTS:
                found.rows.setdefault(kind, []).extend(_decoded(data))
    for name in ("accepted", "duplicates"):
        found.counts[name] += getattr(outcome, name)
    found.counts["late"] = len(found.rows.get(LATE_EVENTS.name, ()))


def _add_letters(found: Found, letters: list[tuple[Any, ...]]) -> None:
    letters.sort(key=lambda letter: letter[:3])
    found.rows[DEAD_LETTERS.name] = _decoded(encode_rows(DEAD_LETTERS, letters))
    found.counts["dead"] = len(letters)


@contextlib.contextmanager
def _own_code(config: Config, where: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        line = own_line(error)
        at = f" ({line})" if line else ""
        raise StreamCodeError(
            f"stream {config.stream}, {where}: expected a result of the stream's code, found "
            f"{type(error).__name__}: {error}{at}. Correct the code."
        ) from error
