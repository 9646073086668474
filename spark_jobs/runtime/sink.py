"""Where a batch's rows go: each table's in one commit, idempotently, under the lease.

A batch may run again after a crash. Every table has a Delta transaction id of its own per checkpoint
generation, so what was written is not written twice, and what was not is.

The rows come packed (`rows`) and are few next to the events, so they are collected and written with
``deltalake``: some milliseconds a table, where a Spark job takes a second.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake

from spark_jobs.runtime.commits import app_id, overtaking
from spark_jobs.runtime.current_rows import newest_rows, upsert
from spark_jobs.runtime.ledger import BatchCounts, Ledger
from spark_jobs.runtime.rows import COUNT_NAMES, KIND_COUNTS, SchemaError, decode_rows, row_schema
from spark_jobs.runtime.tables import Table, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WRITER = WriterProperties(compression="ZSTD")


class Target(NamedTuple):
    """A table that rows may go to.

    Attributes:
        table: Its shape; its name is the rows' kind and part of the transaction id.
        uri: Where it is.
        shared: Whether the rows are marked with stream, generation and batch.
    """

    table: Table
    uri: str
    shared: bool


class BatchSink:
    """The function given to ``foreachBatch``.

    Args:
        stream: Name of the stream.
        run_id: This launch.
        outputs: ``(table, uri, shared)`` of every table the batch may have rows for, in the order of writing;
            those that are not shared are the stream's own.
        generation: The query's id.
        ledger: The ledger of that generation.
        check_lease: Raises when the lease is lost; called before every write. Returns the epoch.
        note_timers: Takes in the timers (ms) that buckets have now.
    """

    def __init__(
        self,
        *,
        stream: str,
        run_id: str,
        outputs: Iterable[tuple[Table, str, bool]],
        generation: str,
        ledger: Ledger,
        check_lease: Callable[[], int],
        note_timers: Callable[[Mapping[int, int | None]], None],
    ) -> None:
        self._stream = stream
        self._run_id = run_id
        self._targets = tuple(Target(*output) for output in outputs)
        self._generation = generation
        self._ledger = ledger
        self._check_lease = check_lease
        self._note_timers = note_timers

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch: runs it, as one Spark job, and commits what it put out.

        Args:
            batch: ``kind, rows, data``, as `rows` describes them.
            batch_id: Its number.

        Raises:
            LeaseLostError: Before the first write that is not allowed.
            ValueError: The batch has rows that belong to no table, or other rows than it says.
        """
        self._check_lease()
        packed = self._collect(batch)
        counts = packed.pop(KIND_COUNTS, [])
        unpacked = [
            (target, self._unpack(target, packed.get(target.table.name, []))) for target in self._targets
        ]
        for target, rows in unpacked:
            if rows.num_rows:
                self._commit(target, self._marked(target, rows, batch_id), batch_id)
        rows_out = {target.table.name: rows.num_rows for target, rows in unpacked if not target.shared}
        documents: list[dict[str, Any]] = [json.loads(payload.to_pybytes()) for _, payload in counts]
        for document in documents:
            self._note_timers({int(bucket): at for bucket, at in document.get("timers", {}).items()})
        counted = _batch_counts(batch_id, rows_out, documents)
        if not counted.is_empty:
            self._ledger.append(counted, self._check_lease(), self._run_id)

    def _collect(self, batch: DataFrame) -> dict[str, list[tuple[int, pa.Buffer]]]:
        """Per kind the payloads and how many rows each says it has."""
        found: dict[str, list[tuple[int, pa.Buffer]]] = defaultdict(list)
        for chunk in batch.toArrow().to_batches():
            kinds, rows, data = (chunk.column(name) for name in ("kind", "rows", "data"))
            for kind, size, payload in zip(kinds.to_pylist(), rows.to_pylist(), data, strict=True):
                found[kind].append((size, payload.as_buffer()))
        known = {KIND_COUNTS, *(target.table.name for target in self._targets)}
        if unknown := found.keys() - known:
            raise SchemaError(
                f"stream {self._stream}: rows for {', '.join(map(repr, sorted(unknown)))}, but its tables "
                f"are {', '.join(sorted(known - {KIND_COUNTS}))}; declare the table in the stream's outputs"
            )
        return found

    def _unpack(self, target: Target, payloads: list[tuple[int, pa.Buffer]]) -> pa.Table:
        table = target.table
        schema = row_schema(table)
        parts = [decode_rows(payload) for _, payload in payloads]
        for part, (size, _) in zip(parts, payloads, strict=True):
            if not part.schema.equals(schema) or part.num_rows != size:
                raise SchemaError(
                    f"stream {self._stream}, table {table.name}: expected {size} rows of ({_shape(schema)}), "
                    f"found {part.num_rows} of ({_shape(part.schema)}); encode rows with rows.encode_rows"
                )
        # In one piece: the writer may take pieces in any order, and into files of their own.
        return pa.concat_tables(parts).combine_chunks() if parts else schema.empty_table()

    def _commit(self, target: Target, rows: pa.Table, batch_id: int) -> None:
        def write() -> None:
            self._check_lease()
            self._write(target, rows, batch_id)

        overtaking(target.uri, write)

    def _write(self, target: Target, rows: pa.Table, batch_id: int) -> None:
        # Opened anew each time: a table object that is kept and updated grows by 100 kB a commit.
        table = DeltaTable(target.uri)
        name = app_id(self._generation, target.table.name)
        written = table.transaction_version(name)
        if written is not None and written >= batch_id:
            return
        commit = CommitProperties(app_transactions=[Transaction(name, batch_id)])
        if key := target.table.current_by:
            upsert(table, newest_rows(rows, key), key, _WRITER, commit)
        else:
            write_deltalake(table, rows, mode="append", writer_properties=_WRITER, commit_properties=commit)

    def _marked(self, target: Target, rows: pa.Table, batch_id: int) -> pa.Table:
        """The rows with all of the table's columns."""
        if not target.shared:
            return rows
        schema = arrow_schema(target.table)
        marks = {"stream": self._stream, "generation": self._generation, "batch_id": batch_id}
        columns = [
            pa.repeat(pa.scalar(marks[field.name], field.type), rows.num_rows)
            if field.name in marks
            else rows.column(field.name)
            for field in schema
        ]
        return pa.table(columns, schema=schema)


def _batch_counts(batch_id: int, rows_out: Mapping[str, int], documents: list[dict[str, Any]]) -> BatchCounts:
    return BatchCounts(
        batch_id=batch_id,
        counts={name: sum(int(document.get(name, 0)) for document in documents) for name in COUNT_NAMES},
        rows_by_table=rows_out,
        watermark_ms=max((int(document.get("watermark_ms") or 0) for document in documents), default=0),
    )


def _shape(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
