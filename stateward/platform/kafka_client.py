"""How a Kafka client of ours finds and enters the cluster: its address, and the file of the operator.

Drivers have the same in stateward/runtime/kafka/client.py, which also says what may stand in the file.
"""

from __future__ import annotations

import logging
from typing import Any

from stateward.project.settings import Settings

# For librdkafka, which reports every refused connection; callers say themselves what failed.
SILENT = logging.getLogger(f"{__name__}.librdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


class KafkaClientError(RuntimeError):
    """The operator's file cannot be read."""


def client_settings(bootstrap_servers: str) -> dict[str, Any]:
    """Return the settings with which every client begins.

    Args:
        bootstrap_servers: Address of the cluster. How to enter it is in the file that
            `STATEWARD_KAFKA_CLIENT` names: settings of librdkafka, a line each (docs/kafka.md).

    Raises:
        KafkaClientError: the file cannot be read.
    """
    file = Settings().kafka_client
    lines: list[str] = []
    if file is not None:
        try:
            lines = file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise KafkaClientError(
                f"STATEWARD_KAFKA_CLIENT: expected a file with settings of Kafka clients at {file}, found"
                f" none that can be read ({type(error).__name__}). Put it there, or unset the variable."
            ) from error
    pairs = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#"))
    theirs = {name.strip(): value.strip() for name, _, value in pairs}
    return {**theirs, "bootstrap.servers": bootstrap_servers, "logger": SILENT}
