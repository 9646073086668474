"""Names that two processes of ours share: environment variables, and Delta tables that are no stream's."""

from __future__ import annotations

from typing import Final

ENV_PREFIX: Final = "STATEWARD_"
"""All settings of an installation begin with it."""

ENV_DAG_PREFIX: Final = f"{ENV_PREFIX}DAG_PREFIX"
ENV_HOME: Final = f"{ENV_PREFIX}HOME"
ENV_JARS: Final = f"{ENV_PREFIX}JARS"
ENV_KAFKA_CLIENT: Final = f"{ENV_PREFIX}KAFKA_CLIENT"
"""The operator's file with settings of Kafka clients."""
ENV_MASK_SECRET: Final = f"{ENV_PREFIX}MASK_SECRET"
ENV_METRICS_TOKEN: Final = f"{ENV_PREFIX}METRICS_TOKEN"
ENV_PROJECT: Final = f"{ENV_PREFIX}PROJECT"

ENV_AIRFLOW_URL: Final = f"{ENV_PREFIX}AIRFLOW_URL"
ENV_AIRFLOW_TOKEN: Final = f"{ENV_PREFIX}AIRFLOW_TOKEN"
ENV_AIRFLOW_USER: Final = f"{ENV_PREFIX}AIRFLOW_USER"
ENV_AIRFLOW_PASSWORD: Final = f"{ENV_PREFIX}AIRFLOW_PASSWORD"
"""Where commands find Airflow, and how they log in.

A driver's environment has no variable with AIRFLOW in its name.
"""

ENV_MANAGED: Final = f"{ENV_PREFIX}MANAGED"
"""Marks every process that an installation has started."""
ENV_PART: Final = f"{ENV_PREFIX}PART"
"""Marks the processes of a supervised part."""
ENV_DRIVER_STREAM: Final = f"{ENV_PREFIX}DRIVER_STREAM"
ENV_DRIVER_RUN_ID: Final = f"{ENV_PREFIX}DRIVER_RUN_ID"
"""These two mark the processes of one launch of a stream."""
ENV_OPERATION: Final = f"{ENV_PREFIX}OPERATION"
"""Marks the processes of one state operation."""

TICK_TOPICS: Final = "stateward-ticks-"
"""The name of a stream's topic of ticks begins with it, and ends with the stream's."""

DEAD_LETTERS: Final = "dead_letters"
LATE_EVENTS: Final = "late_events"
BATCH_COUNTS: Final = "batch_counts"
SHARED_TABLES: Final = (DEAD_LETTERS, LATE_EVENTS, BATCH_COUNTS)
"""Tables that every stream writes beside its own."""

QUALITY_RESULTS: Final = "quality_results"
QUALITY_VALIDATIONS: Final = "quality_validations"
QUARANTINE: Final = "quarantine"
RECONCILIATIONS: Final = "reconciliations"
STATE_EXPORTS: Final = "state_exports"
TABLE_MAINTENANCE: Final = "table_maintenance"
PLATFORM_TABLES: Final = (
    QUALITY_RESULTS,
    QUALITY_VALIDATIONS,
    QUARANTINE,
    RECONCILIATIONS,
    STATE_EXPORTS,
    TABLE_MAINTENANCE,
)
"""Tables that no stream writes."""

FORGOTTEN: Final = "forgotten"
"""The folder beside the tables with the register of forgotten keys."""

RAW_EVENTS: Final = "raw_events"
"""The stream that lands records as they are, and its table."""


def is_local(master: str) -> bool:
    """Whether the driver of a Spark master is its own executor."""
    return master == "local" or master.startswith("local[")


def is_kubernetes(master: str) -> bool:
    """Whether a Spark master is Kubernetes."""
    return master.startswith("k8s://")
