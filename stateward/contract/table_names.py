"""Names of the Delta tables that are no stream's own, and of the landed records that others are made from."""

from __future__ import annotations

from typing import Final

DEAD_LETTERS: Final = "dead_letters"
LATE_EVENTS: Final = "late_events"
BATCH_COUNTS: Final = "batch_counts"
SHARED_TABLES: Final = (DEAD_LETTERS, LATE_EVENTS, BATCH_COUNTS)
"""Tables that every stream writes beside its own."""

QUALITY_RESULTS: Final = "quality_results"
QUALITY_VALIDATIONS: Final = "quality_validations"
QUARANTINE: Final = "quarantine"
RECONCILIATIONS: Final = "reconciliations"
TABLE_MAINTENANCE: Final = "table_maintenance"
PLATFORM_TABLES: Final = (
    QUALITY_RESULTS,
    QUALITY_VALIDATIONS,
    QUARANTINE,
    RECONCILIATIONS,
    TABLE_MAINTENANCE,
)
"""Tables that no stream writes."""

RAW_EVENTS: Final = "raw_events"
"""The stream that lands records as they are, and its table."""
