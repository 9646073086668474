"""Names of the environment variables that two processes of ours share."""

from __future__ import annotations

from typing import Final

ENV_PREFIX: Final = "STATEWARD_"
"""All settings of an installation begin with it."""

ENV_HOME: Final = f"{ENV_PREFIX}HOME"
ENV_JARS: Final = f"{ENV_PREFIX}JARS"
ENV_KAFKA_CLIENT: Final = f"{ENV_PREFIX}KAFKA_CLIENT"
"""The operator's file with settings of Kafka clients."""
ENV_MASK_SECRET: Final = f"{ENV_PREFIX}MASK_SECRET"
ENV_METRICS_TOKEN: Final = f"{ENV_PREFIX}METRICS_TOKEN"

ENV_MANAGED: Final = f"{ENV_PREFIX}MANAGED"
"""Marks every process that an installation has started."""
ENV_PART: Final = f"{ENV_PREFIX}PART"
"""Marks the processes of a supervised part."""
ENV_DRIVER_STREAM: Final = f"{ENV_PREFIX}DRIVER_STREAM"
ENV_DRIVER_RUN_ID: Final = f"{ENV_PREFIX}DRIVER_RUN_ID"
"""These two mark the processes of one launch of a stream."""
ENV_OPERATION: Final = f"{ENV_PREFIX}OPERATION"
"""Marks the processes of one state operation."""
