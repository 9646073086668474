"""What a validation has to know of forgotten keys: records and rows that are missing on purpose."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stateward.contract.names import BATCH_COUNTS, DEAD_LETTERS, LATE_EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stateward.contract.privacy.forgotten import Register

_RECORDS_DDL = "topic string, partition int, first bigint, last bigint"
_ROWS_DDL = "stream string, generation string, batch_id bigint, gone_dead bigint, gone_late bigint"
_MARKS = ["stream", "generation", "batch_id"]


def forgotten_records(spark: SparkSession, register: Register | None) -> DataFrame:
    """Return the records of forgotten keys: ``topic string, partition int, offset bigint``."""
    rows = [
        (topic, int(partition), first, last)
        for key in (register.keys() if register else ())
        for topic, records in key.records.items()
        for partition, spans in records.offsets.items()
        for first, last in spans
    ]
    spans = spark.createDataFrame(rows, _RECORDS_DDL)
    return spans.selectExpr("topic", "partition", "explode(sequence(first, last)) AS offset").distinct()


def counted_without(frame: DataFrame, table: str, register: Register | None) -> DataFrame:
    """Return `batch_counts` with the counts of rows that are left; any other table as it is.

    A batch keeps what it has counted, while dead letters and late events of forgotten keys are gone.
    """
    gone: Counter[tuple[str, str, int, str]] = Counter()
    for key in register.keys() if register and table == BATCH_COUNTS else ():
        for name, by_query in key.rows.items():
            for place, batches in by_query.items():
                stream, _, generation = place.partition("/")
                for batch, count in batches.items():
                    gone[stream, generation, int(batch), name] += count
    if not gone:
        return frame
    from pyspark.sql import functions as F

    places = sorted({place[:3] for place in gone})
    rows = [(*place, gone[*place, DEAD_LETTERS], gone[*place, LATE_EVENTS]) for place in places]
    lost = frame.sparkSession.createDataFrame(rows, _ROWS_DDL)
    joined = frame.join(F.broadcast(lost), _MARKS, "left")
    left = {name: F.col(name) - F.coalesce(f"gone_{name}", F.lit(0)) for name in ("dead", "late")}
    return joined.withColumns(left).select(*frame.columns)
