"""The truth about a stream: its oracle over all events, which most streams fold key by key.

Which records are events, and which are dead, is known by their marks; the stream's own parser has to agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from proof.traffic.records import DEAD, DUPLICATE, EVENT, LATE, Record
from proof.truth.expected import Expected, Rows, TruthError
from stateward.runtime.api.config import Config
from stateward.runtime.api.key_filter import takes
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.stream_job import Output, StreamJob
from stateward.runtime.ingest.parse import Parsed
from stateward.runtime.ingest.shaped_records import parser_of
from stateward.runtime.sink.output_rows import decode_rows, encode_rows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNT_OF = {EVENT: "accepted", DUPLICATE: "duplicates", DEAD: "dead", LATE: "late"}


class KeyedTruth:
    """See `expected.StreamTruth`.

    Args:
        job: The stream's declaration.
        config: Configuration of its launch.
        recorded_ms: When the records are sent, milliseconds since 1970 UTC.

    Raises:
        TruthError: The stream emits on arrival, so that its rows depend on the order of arrival.
    """

    def __init__(self, job: StreamJob | NativeJob, config: Config, recorded_ms: int) -> None:
        if config.emission != "watermark":
            raise TruthError(
                f"stream {config.stream}: expected emission: watermark, found {config.emission}: "
                "its rows depend on the order of arrival, so they cannot be known in advance"
            )
        fields = job.fields(config)
        self._job = job
        self._config = config
        self._owner = job.owner
        self._recorded_ms = recorded_ms
        self._names = frozenset(field.name for field in fields)
        self._parser = parser_of(fields, config.bounds)
        self._events: dict[str, list[Any]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._dead: Rows = []
        self._late: Rows = []

    def see(self, record: Record) -> None:
        """See `expected.StreamTruth.see`."""
        mark = record.mark
        if mark == DEAD and record.field is not None and record.field not in self._names:
            mark = EVENT
        if mark == DEAD:
            self._counts[_COUNT_OF[mark]] += 1
            self._see_dead(record)
            return
        parsed = self._parser.parse(record.value, self._recorded_ms)
        if not isinstance(parsed, Parsed):
            raise self._differs(
                record, f"a valid record ({mark})", f"a dead letter ({parsed.reason}: {parsed.detail})"
            )
        key = self._owner(parsed.record)
        if not takes(self._job.only, key):
            return
        self._counts[_COUNT_OF[mark]] += 1
        if mark == EVENT:
            self._events[key].append(event_of(self._job, parsed))
        elif mark == LATE:
            self._late.append(
                {
                    "event_id": parsed.record.event_id,
                    "key": key,
                    "event_time": _EPOCH + timedelta(milliseconds=parsed.event_ms),
                    "value": record.value,
                }
            )

    def finish(self) -> Expected:
        """See `expected.StreamTruth.finish`."""
        rows = oracle_rows(self._job, self._config, self._events)
        return Expected(
            tables={output.table.name: rows_of_table(output, rows) for output in self._job.outputs},
            counts={name: self._counts[name] for name in _COUNT_OF.values()},
            dead_letters=self._dead,
            late_events=self._late,
            busiest_key=max(map(len, self._events.values()), default=0),
        )

    def _see_dead(self, record: Record) -> None:
        judged = self._parser.parse(record.value, self._recorded_ms)
        if isinstance(judged, Parsed):
            raise self._differs(record, f"a dead letter ({record.reason})", "a valid event")
        if judged.reason != record.reason:
            raise self._differs(record, f"a dead letter ({record.reason})", str(judged.reason))
        self._dead.append({"reason": record.reason, "key": record.key, "value": record.value})

    def _differs(self, record: Record, expected: str, found: str) -> TruthError:
        shown = (record.value or b"")[:200]
        return TruthError(
            f"stream {self._config.stream}: expected {expected}, found {found}: {shown!r}; "
            "bring the stories in proof/traffic and the stream's declaration together"
        )


def event_of(job: StreamJob | NativeJob, parsed: Parsed) -> Any:
    """The event of a valid record, as the stream's oracle takes it."""
    event = job.event(parsed.record, parsed.event_ms)
    return event if isinstance(job, NativeJob) else job.event_type(*event)


def oracle_rows(
    job: StreamJob | NativeJob, config: Config, events: Mapping[str, Iterable[Any]]
) -> Sequence[tuple[Any, ...]]:
    """All rows of all events, given by key, if they arrive at once and none follows."""
    if isinstance(job, NativeJob):
        return job.oracle(chain.from_iterable(events.values()), config)
    logic = job.logic(config)
    return [row for key, found in events.items() for row in replay_oracle(logic, key, found)]


def rows_of_table(output: Output, rows: Iterable[tuple[Any, ...]]) -> Rows:
    """The rows of a table; in a table with current rows the last of each key."""
    mine = [row for row in rows if type(row) is output.row]
    found: Rows = decode_rows(encode_rows(output.table, mine)).to_pylist()
    key = output.table.current_by
    return list({tuple(row[name] for name in key): row for row in found}.values()) if key else found
