"""What a processor emits: tagged rows, one nullable struct per kind.

Times leave a processor as milliseconds and become timestamps in the sink, so that no worker's time zone
matters.
"""

from __future__ import annotations

KIND_LATE, KIND_DEAD, KIND_COUNTS = "late", "dead", "counts"

LATE_DDL = (
    "topic: string, partition: int, offset: bigint, record_ms: bigint, event_id: string, key: string, "
    "event_ms: bigint, watermark_ms: bigint, value: binary"
)
DEAD_DDL = (
    "topic: string, partition: int, offset: bigint, record_ms: bigint, key: binary, value: binary, "
    "reason: string, detail: string"
)
COUNTS_DDL = (
    "accepted: bigint, dead: bigint, late: bigint, duplicates: bigint, tick_records: bigint, "
    "watermark_ms: bigint"
)
COUNT_NAMES = ("accepted", "dead", "late", "duplicates", "tick_records")

LATE_SELECT = (
    "topic",
    "partition",
    "offset",
    "timestamp_millis(record_ms) AS record_timestamp",
    "event_id",
    "key",
    "timestamp_millis(event_ms) AS event_time",
    "timestamp_millis(watermark_ms) AS watermark",
    "value",
)
DEAD_SELECT = (
    "topic",
    "partition",
    "offset",
    "timestamp_millis(record_ms) AS record_timestamp",
    "key",
    "value",
    "reason",
    "detail",
)


def output_ddl(kind: str, row_ddl: str) -> str:
    """Schema of a processor's output whose own rows are of ``kind`` with the fields ``row_ddl``."""
    return (
        f"kind string, {kind} struct<{row_ddl}>, {KIND_LATE} struct<{LATE_DDL}>, "
        f"{KIND_DEAD} struct<{DEAD_DDL}>, {KIND_COUNTS} struct<{COUNTS_DDL}>"
    )
