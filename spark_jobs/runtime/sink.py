"""Where a batch's rows go: each kind to its Delta table, idempotently, under the lease.

A batch may run again after a crash. Every table has a Delta transaction id of its own per checkpoint
generation, so what was written is not written twice, and what was not is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_jobs.runtime.ledger import BatchCounts, Ledger
from spark_jobs.runtime.rows import (
    COUNT_NAMES,
    DEAD_SELECT,
    KIND_COUNTS,
    KIND_DEAD,
    KIND_LATE,
    LATE_SELECT,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A file per this many rows; small batches make one file a table, not one per partition.
_ROWS_PER_FILE = 200_000


@dataclass(frozen=True)
class Part:
    """Rows of one kind and the table they belong to.

    Attributes:
        kind: Tag, and name of the struct, in the processor's rows.
        table: Name of the table, part of its transaction id.
        uri: Where the table is.
        select: SQL from the struct's fields to the table's columns.
        shared: Whether the rows are marked with stream, generation and batch.
    """

    kind: str
    table: str
    uri: str
    select: tuple[str, ...]
    shared: bool


def parts(kind: str, table: str, select: tuple[str, ...], uris: dict[str, str]) -> tuple[Part, ...]:
    """The parts of a stream: its own rows, then what it put aside."""
    return (
        Part(kind, table, uris[table], select, shared=False),
        Part(KIND_DEAD, "dead_letters", uris["dead_letters"], DEAD_SELECT, shared=True),
        Part(KIND_LATE, "late_events", uris["late_events"], LATE_SELECT, shared=True),
    )


class BatchSink:
    """The function given to ``foreachBatch``.

    Args:
        stream: Name of the stream.
        run_id: This launch.
        outputs: Kinds and their tables; the first is the stream's own.
        generation: Gives the query's id, known once it has started.
        ledger: Gives the ledger, likewise.
        check_lease: Raises when the lease is lost; called before every write. Returns the epoch.
    """

    def __init__(
        self,
        *,
        stream: str,
        run_id: str,
        outputs: tuple[Part, ...],
        generation: str,
        ledger: Ledger,
        check_lease: Callable[[], int],
    ) -> None:
        self._stream = stream
        self._run_id = run_id
        self._outputs = outputs
        self._generation = generation
        self._ledger = ledger
        self._check_lease = check_lease

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch; raises `LeaseLostError` before the first write that is not allowed."""
        self._check_lease()
        batch.persist()
        try:
            sizes, counted = self._measure(batch, batch_id)
            for part in self._outputs:
                if sizes.get(part.kind, 0):
                    self._check_lease()
                    self._append(batch, part, sizes[part.kind], batch_id)
            if not counted.is_empty:
                self._ledger.append(counted, self._check_lease(), self._run_id)
        finally:
            batch.unpersist()

    def _measure(self, batch: DataFrame, batch_id: int) -> tuple[dict[str, int], BatchCounts]:
        sums = [F.coalesce(F.sum(f"{KIND_COUNTS}.{name}"), F.lit(0)).alias(name) for name in COUNT_NAMES]
        watermark = F.max(f"{KIND_COUNTS}.watermark_ms").alias("watermark_ms")
        rows = batch.groupBy("kind").agg(F.count("*").alias("rows"), *sums, watermark).collect()
        sizes = {row["kind"]: int(row["rows"]) for row in rows}
        counts: dict[str, Any] = next((row.asDict() for row in rows if row["kind"] == KIND_COUNTS), {})
        return sizes, BatchCounts(
            batch_id=batch_id,
            counts={name: int(counts.get(name, 0)) for name in COUNT_NAMES},
            rows_out=sizes.get(self._outputs[0].kind, 0),
            watermark_ms=int(counts.get("watermark_ms") or 0),
        )

    def _append(self, batch: DataFrame, part: Part, size: int, batch_id: int) -> None:
        rows = batch.where(F.col("kind") == part.kind).select(f"{part.kind}.*").selectExpr(*part.select)
        if part.shared:
            rows = rows.select(
                F.lit(self._stream).alias("stream"),
                "*",
                F.lit(self._generation).alias("generation"),
                F.lit(batch_id).cast("long").alias("batch_id"),
            )
        (
            rows.coalesce(1 + size // _ROWS_PER_FILE)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", f"{self._generation}:{part.table}")
            .option("txnVersion", str(batch_id))
            .save(part.uri)
        )
