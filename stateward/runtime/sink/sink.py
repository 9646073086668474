"""Writes a batch's rows: one idempotent commit per table, under the lease.

A batch may run again after a crash. Each table has its own Delta transaction id per checkpoint generation, so
rows are neither written twice nor lost.

The rows are packed (`output_rows`) and few compared to the events, so the driver collects them and writes
them with ``deltalake``: milliseconds per table, while a Spark job takes a second. Rows that are many are
in files that the tasks have written (`row_files`), of which the driver commits the list.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from stateward.contract.storage import sync_disks
from stateward.runtime.api.tables import Table
from stateward.runtime.checkpoint.lookup_versions import LookupVersions
from stateward.runtime.delta.commit_retry import app_id
from stateward.runtime.sink.ledger import BatchCounts, Ledger
from stateward.runtime.sink.output_rows import (
    COUNT_NAMES,
    KIND_COUNTS,
    KIND_FILES,
    SchemaError,
    decode_rows,
    row_schema,
    with_marks,
)
from stateward.runtime.sink.row_files import WrittenFiles, written_files
from stateward.runtime.sink.table_commits import TableWrite
from stateward.runtime.sink.topic_sink import TopicSink
from stateward.runtime.watermark.partition_times import Times, merge_times, times_from_json


class ArrowRows(Protocol):
    """What a sink needs of a ``DataFrame``."""

    def toArrow(self) -> pa.Table:
        """Run the job and return its rows."""


class Target(NamedTuple):
    """A table that a batch may write.

    Attributes:
        table: The declaration; its name is the kind of the rows and part of the transaction id.
        uri: The table.
        shared: Whether stream, generation and batch are added to the rows.
    """

    table: Table
    uri: str
    shared: bool


class BatchSink:
    """The function given to ``foreachBatch``.

    Args:
        stream: Name of the stream.
        run_id: This launch.
        outputs: ``(table, uri, shared)`` of every table that the batch may write, in the order of writing;
            tables that are not shared are the stream's own.
        generation: The query's id.
        ledger: The ledger of that generation.
        check_lease: Returns the epoch, and raises if the lease is lost; called before every write.
        note_timers: Receives the current timers (ms) of buckets.
        checkpoint_uri: The checkpoint with the batch's plan and state.
        note_times: Receives the event times of the batch, or None if it had no records; called last.
        note_sizes: Receives the current sizes of buckets, in the order of `BucketSize`; None for a stream
            without buckets.
        topics: Kafka topics to which rows go too; None for a stream without them.
        lookups_from: Returns the versions of lookups that begin with a batch; None for a stream without.
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
        checkpoint_uri: str,
        note_times: Callable[[Times | None], None],
        note_sizes: Callable[[Mapping[int, Sequence[int]]], None] | None = None,
        topics: TopicSink | None = None,
        lookups_from: Callable[[int], LookupVersions | None] | None = None,
    ) -> None:
        self._stream = stream
        self._run_id = run_id
        self._targets = tuple(Target(*output) for output in outputs)
        self._generation = generation
        self._ledger = ledger
        self._check_lease = check_lease
        self._note_timers = note_timers
        self._checkpoint_uri = checkpoint_uri
        self._note_times = note_times
        self._note_sizes = note_sizes
        self._topics = topics
        self._lookups_from = lookups_from

    def __call__(self, batch: ArrowRows, batch_id: int) -> None:
        """Run one batch as one Spark job and commit its rows.

        The files with the rows and the batch's plan and state, which Spark does not sync, are on disk before
        the first commit: otherwise a table could contain rows of a batch that is then planned differently.
        The commits are on disk before this returns, upon which Spark commits the batch, and before rows go to
        Kafka: what a topic has, its table has too, whatever becomes of the driver.

        Args:
            batch: ``kind, rows, data`` (`output_rows`).
            batch_id: Its number.

        Raises:
            LeaseLostError: Raised before the first write that is not allowed. ValueError: The batch has rows
            for an unknown table, or rows that do not match their table or count. OSError: Storage fails, or
            lacks files that a task has written.
        """
        epoch = self._check_lease()
        packed = self._collect(batch)
        documents = [json.loads(payload.to_pybytes()) for _, payload in packed.pop(KIND_COUNTS, [])]
        files = self._files(packed.pop(KIND_FILES, []))
        unpacked = [
            (target, self._unpack(target, packed.get(target.table.name, []))) for target in self._targets
        ]
        found = [(target, rows, files.get(target.table.name, WrittenFiles())) for target, rows in unpacked]
        writes = [self._write_of(*one, batch_id) for one in found if one[1].num_rows or one[2].rows]
        rows_out = {one.table.name: rows.num_rows + more.rows for one, rows, more in found if not one.shared}
        counted = _batch_counts(batch_id, rows_out, documents)
        if self._lookups_from is not None:
            counted = replace(counted, lookups=self._lookups_from(batch_id))
        writes += self._ledger.write_of(counted, epoch, self._run_id)
        for write in writes:
            write.prepare()
        self._sync()
        for write in writes:
            write.commit(self._check_lease)
        self._ledger.note(counted)
        self._sync()
        for written in files.values():
            written.forget_lists()
        if self._topics is not None:
            own = {target.table.name: (target.table, rows) for target, rows in unpacked if not target.shared}
            self._topics.send(self._generation, batch_id, own, self._check_lease)
        for document in documents:
            self._note_timers({int(bucket): at for bucket, at in document.get("timers", {}).items()})
            if self._note_sizes is not None:
                self._note_sizes({int(bucket): size for bucket, size in document.get("sizes", {}).items()})
        self._note_times(counted.times)

    def _sync(self) -> None:
        sync_disks((self._checkpoint_uri, *(target.uri for target in self._targets), self._ledger.uri))

    def _write_of(self, target: Target, rows: pa.Table, written: WrittenFiles, batch_id: int) -> TableWrite:
        marks = {"stream": self._stream, "generation": self._generation, "batch_id": batch_id}
        return TableWrite(
            self._stream,
            target.uri,
            app_id(self._generation, target.table.name),
            batch_id,
            with_marks(target.table, rows, marks if target.shared else {}),
            current_by=target.table.current_by,
            written=written,
        )

    def _files(self, payloads: list[tuple[int, pa.Buffer]]) -> dict[str, WrittenFiles]:
        uris = {target.table.name: target.uri for target in self._targets}
        return written_files(self._stream, ((size, data.to_pybytes()) for size, data in payloads), uris)

    def _collect(self, batch: ArrowRows) -> dict[str, list[tuple[int, pa.Buffer]]]:
        """The payloads of each kind with their declared numbers of rows."""
        found: dict[str, list[tuple[int, pa.Buffer]]] = defaultdict(list)
        for chunk in batch.toArrow().to_batches():
            kinds, rows, data = (chunk.column(name) for name in ("kind", "rows", "data"))
            for kind, size, payload in zip(kinds.to_pylist(), rows.to_pylist(), data, strict=True):
                found[kind].append((size, payload.as_buffer()))
        tables = {target.table.name for target in self._targets}
        if unknown := found.keys() - tables - {KIND_COUNTS, KIND_FILES}:
            raise SchemaError(
                f"stream {self._stream}: rows for {', '.join(map(repr, sorted(unknown)))}, but its tables "
                f"are {', '.join(sorted(tables))}; declare the table in the stream's outputs"
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
                    f"found {part.num_rows} of ({_shape(part.schema)}); encode rows with "
                    "output_rows.encode_rows"
                )
        # In one chunk: the writer may reorder chunks and write them to separate files.
        return pa.concat_tables(parts).combine_chunks() if parts else schema.empty_table()


def _batch_counts(batch_id: int, rows_out: Mapping[str, int], documents: list[dict[str, Any]]) -> BatchCounts:
    times = [times_from_json(document["times"]) for document in documents if "times" in document]
    return BatchCounts(
        batch_id=batch_id,
        counts={name: sum(int(document.get(name, 0)) for document in documents) for name in COUNT_NAMES},
        rows_by_table=rows_out,
        watermark_ms=max((int(document.get("watermark_ms") or 0) for document in documents), default=0),
        times=merge_times(times) if times else None,
    )


def _shape(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
