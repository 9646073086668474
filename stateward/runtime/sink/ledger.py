"""Exactly-once counters of a checkpoint: one row of ``batch_counts`` per batch that is not empty.

Written with ``deltalake`` and a Delta transaction id, as Spark's own sink does.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from stateward.contract.names import BATCH_COUNTS
from stateward.runtime.checkpoint.lookup_versions import LookupVersions
from stateward.runtime.delta.commit_retry import app_id
from stateward.runtime.delta.delta_tables import TableHandle
from stateward.runtime.sink.output_rows import COUNT_NAMES, OUTCOME_NAMES
from stateward.runtime.sink.table_commits import TableWrite
from stateward.runtime.watermark.partition_times import Times, times_from_json

_INSTANT = pa.timestamp("us", tz="UTC")
_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("generation", pa.string()),
        ("batch_id", pa.int64()),
        ("epoch", pa.int64()),
        ("run_id", pa.string()),
        *((name, pa.int64()) for name in (*COUNT_NAMES, "rows_out")),
        ("watermark", _INSTANT),
        ("committed_at", _INSTANT),
        ("rows_by_table", pa.string()),
        ("times", pa.string()),
        ("lookups", pa.string()),
    ]
)
# The counts of a batch are published once its commit is seen; at most a few batches are pending.
_UNPUBLISHED = 8


@dataclass(frozen=True)
class BatchCounts:
    """The counts of one batch.

    Attributes:
        batch_id: Its number.
        counts: By the names of `output_rows.COUNT_NAMES`.
        rows_by_table: The number of rows for each of the stream's own tables.
        watermark_ms: Its watermark; 0 if no operator reported one.
        times: The event times of its records; None without records.
        lookups: The versions with which its records and later ones are read; None if they are those of the
            batch before.
    """

    batch_id: int
    counts: Mapping[str, int]
    rows_by_table: Mapping[str, int]
    watermark_ms: int
    times: Times | None = None
    lookups: LookupVersions | None = None

    @property
    def rows_out(self) -> int:
        """The number of rows for all of the stream's tables."""
        return sum(self.rows_by_table.values())

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to record."""
        return not self.rows_out and not any(self.counts.values()) and self.lookups is None


class Ledger:
    """The counters of one generation of one stream.

    Args:
        uri: The table ``batch_counts``.
        stream: Name of the stream.
        generation: Id of the streaming query.
        earlier: The generations that it continues, with the last batch of each; their rows count too.
    """

    def __init__(
        self, uri: str, stream: str, generation: str, earlier: Mapping[str, int] | None = None
    ) -> None:
        self.uri = uri
        self._table = TableHandle(uri)
        self._stream = stream
        self._generation = generation
        self._app_id = app_id(generation, BATCH_COUNTS)
        last_batch, totals = recorded(uri, stream, generation, earlier or {})
        self._last_batch = last_batch
        self._history: deque[tuple[int, dict[str, int]]] = deque([(last_batch, totals)], maxlen=_UNPUBLISHED)

    def write_of(self, batch: BatchCounts, epoch: int, run_id: str) -> list[TableWrite]:
        """The write that records a batch; none if the batch is empty or already recorded."""
        if batch.is_empty or batch.batch_id <= self._last_batch:
            return []
        row = pa.Table.from_pylist([self._row(batch, epoch, run_id)], schema=_SCHEMA)
        opened = self._table.current
        return [TableWrite(self._stream, self.uri, self._app_id, batch.batch_id, row, open_table=opened)]

    def note(self, batch: BatchCounts) -> None:
        """Add a recorded batch to the totals, once."""
        if batch.is_empty or batch.batch_id <= self._last_batch:
            return
        before = self._history[-1][1]
        row = {**batch.counts, "rows_out": batch.rows_out}
        self._history.append((batch.batch_id, {name: before[name] + row[name] for name in before}))
        self._last_batch = batch.batch_id

    def append(self, batch: BatchCounts, epoch: int, run_id: str) -> None:
        """Record a batch; a batch that runs again changes nothing."""
        for write in self.write_of(batch, epoch, run_id):
            write.commit(lambda: epoch)
        self.note(batch)

    def totals(self, committed_batch: int) -> dict[str, int]:
        """The totals of all batches up to ``committed_batch``."""
        known = [totals for batch_id, totals in self._history if batch_id <= committed_batch]
        return dict(known[-1] if known else self._history[0][1])

    def _row(self, batch: BatchCounts, epoch: int, run_id: str) -> dict[str, Any]:
        return {
            "stream": self._stream,
            "generation": self._generation,
            "batch_id": batch.batch_id,
            "epoch": epoch,
            "run_id": run_id,
            **batch.counts,
            "rows_out": batch.rows_out,
            # A batch with timers only reports no watermark; 1970 would look like one.
            "watermark": datetime.fromtimestamp(batch.watermark_ms / 1000, UTC)
            if batch.watermark_ms
            else None,
            "committed_at": datetime.now(UTC),
            "rows_by_table": json.dumps(dict(batch.rows_by_table)),
            "times": None if batch.times is None else json.dumps(batch.times.to_json()),
            "lookups": None if batch.lookups is None else json.dumps(batch.lookups.to_json()),
        }


def recorded_times(uri: str, stream: str, generation: str, earlier: Mapping[str, int]) -> Times:
    """The event times of the last recorded batch; empty for one of an earlier release.

    Args:
        uri: The table ``batch_counts``.
        stream: Name of the stream.
        generation: Id of the streaming query.
        earlier: The generations that it continues, with the last batch of each.
    """
    table = DeltaTable(uri).to_pyarrow_dataset()
    if "times" not in table.schema.names:
        return Times()
    wanted = _of(generation, earlier) & (pc.field("stream") == stream) & pc.field("times").is_valid()
    rows = table.to_table(columns=["committed_at", "batch_id", "times"], filter=wanted)
    if not rows.num_rows:
        return Times()
    last = rows.sort_by([("committed_at", "descending"), ("batch_id", "descending")])["times"][0].as_py()
    return times_from_json(json.loads(last))


def recorded_lookups(uri: str, stream: str, generation: str, earlier: Mapping[str, int]) -> list[str]:
    """The texts of the column ``lookups``, in the order of the generations and of their batches.

    Args:
        uri: The table ``batch_counts``.
        stream: Name of the stream.
        generation: Id of the streaming query.
        earlier: The generations that it continues, the oldest first, with the last batch of each.
    """
    if not DeltaTable.is_deltatable(uri):
        return []
    table = DeltaTable(uri).to_pyarrow_dataset()
    if "lookups" not in table.schema.names:
        return []
    wanted = _of(generation, earlier) & (pc.field("stream") == stream) & pc.field("lookups").is_valid()
    rows = table.to_table(columns=["generation", "batch_id", "lookups"], filter=wanted).to_pylist()
    ages = {name: age for age, name in enumerate([*earlier, generation])}
    return [
        row["lookups"] for row in sorted(rows, key=lambda row: (ages[row["generation"]], row["batch_id"]))
    ]


def recorded(
    uri: str,
    stream: str,
    generation: str,
    earlier: Mapping[str, int],
    last_batch: int | None = None,
) -> tuple[int, dict[str, int]]:
    """The last recorded batch of this generation (-1 without one) and the totals of all of them.

    A generation that begins with its first batch again, as after `forget`, has lower numbers than the
    one that it continues. A total is 0 for a name that no row has.

    Args:
        uri: The table ``batch_counts``.
        stream: Name of the stream.
        generation: Id of the streaming query.
        earlier: The generations that it continues, with the last batch of each.
        last_batch: The last batch of this generation to include; None for all.
    """
    table = DeltaTable(uri).to_pyarrow_dataset()
    wanted = _of(generation, earlier, last_batch)
    names = (*COUNT_NAMES, "rows_out")
    # A table of an earlier release lacks columns until a driver of this release has started.
    known = [name for name in names if name in table.schema.names]
    columns = ["generation", "batch_id", *known]
    rows = table.to_table(columns=columns, filter=(pc.field("stream") == stream) & wanted)
    totals = {name: (pc.sum(rows[name]).as_py() or 0) if name in known else 0 for name in names}
    totals["records"] += _records_of_before(rows)
    last = pc.max(rows.filter(pc.equal(rows["generation"], generation))["batch_id"]).as_py()
    return (-1 if last is None else last), totals


def _records_of_before(rows: pa.Table) -> int:
    """The records of batches of an earlier release, which did not count them: the sum of their outcomes."""
    if "records" in rows.column_names:
        rows = rows.filter(pc.is_null(rows["records"]))
    return sum(pc.sum(rows[name]).as_py() or 0 for name in OUTCOME_NAMES if name in rows.column_names)


def _of(generation: str, earlier: Mapping[str, int], last_batch: int | None = None) -> pc.Expression:
    """A filter for the rows of a generation and of those that it continues."""
    wanted = pc.field("generation") == generation
    if last_batch is not None:
        wanted &= pc.field("batch_id") <= last_batch
    for before, its_last in earlier.items():
        wanted |= (pc.field("generation") == before) & (pc.field("batch_id") <= its_last)
    return wanted
