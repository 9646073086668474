"""How every Kafka client finds and enters the cluster: its address, and the file of the operator.

The file has settings of librdkafka, a line each (`sasl.username=stateward`), as its other clients take them.
It is read where a client is made and put in no document, so that a password is in the one place where it was
put.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.names import ENV_KAFKA_CLIENT

BROKERS_DEFAULT = -1
"""Replication factor of a new topic: the one that the broker has for its default (embedded: 1)."""

# librdkafka reports every failed connection attempt; callers say themselves what failed, and once.
CLIENT_LOG = logging.getLogger("stateward.kafka")
CLIENT_LOG.addHandler(logging.NullHandler())
CLIENT_LOG.propagate = False
# How records are read and written is the streams' own: with `isolation.level` an operator could change what
# they compute.
MAY_BE_SET = (
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl.",
    "enable.sasl.",
    "https.",
    "client.",
    "socket.",
    "broker.address.",
    "reconnect.",
)
"""What the names of settings begin with that say how to enter a cluster."""


class KafkaClientError(ConditionError, ValueError):
    """The operator's file cannot be read, or has what does not belong there."""

    condition = Condition.KAFKA_CLIENT_INVALID


def client_settings(bootstrap: str, client: Path | None = None) -> dict[str, Any]:
    """The settings with which every client begins.

    Args:
        bootstrap: Address of the cluster. How to enter it is in the file that `STATEWARD_KAFKA_CLIENT` names
            (docs/kafka.md), if it names one.
        client: Another file, in place of that one.

    Raises:
        KafkaClientError: The file cannot be read, or has something that is not of entering a cluster.
    """
    file = str(client or os.environ.get(ENV_KAFKA_CLIENT, ""))
    theirs = _read(Path(file).expanduser()) if file else {}
    return {**theirs, "bootstrap.servers": bootstrap, "logger": CLIENT_LOG}


def _read(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaClientError(
            f"{ENV_KAFKA_CLIENT}: expected a file with settings of Kafka clients at {file}, found none that "
            f"can be read ({type(error).__name__}). Put it there, on every host that runs Spark, or unset "
            "the variable."
        ) from error
    found = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        # The value may be a password, and stays out of the message.
        if not equals or not name.startswith(MAY_BE_SET):
            raise KafkaClientError(
                f"{file}, line {number}: expected name=value, the name beginning with one of "
                f"{', '.join(MAY_BE_SET)}, found {name if equals else 'no ='!r}. How to enter the cluster "
                "belongs here (docs/kafka.md); how records are read is the stream's own."
            )
        found[name] = value
    return found
