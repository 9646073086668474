"""How every Kafka client of a driver finds and enters the cluster: its address, and the file of the operator.

The file has settings of librdkafka, a line each (`sasl.username=stateward`), as its other clients take them.
It is read where a client is made and put in no document, so that a password is in the one place where it was
put.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stateward.runtime.driver.conditions import Condition, ConditionError

VARIABLE = "STATEWARD_KAFKA_CLIENT"
# The client reports every failed connection attempt; the driver reports the broker's absence once, as its
# state.
CLIENT_LOG = logging.getLogger("stateward.kafka")
CLIENT_LOG.addHandler(logging.NullHandler())
CLIENT_LOG.propagate = False
# How records are read and written is the streams' own: with `isolation.level` an operator could change what
# they compute.
_MAY_BE_SET = (
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


class KafkaClientError(ConditionError, ValueError):
    """The operator's file cannot be read, or has what does not belong there."""

    condition = Condition.KAFKA_CLIENT_INVALID


def client_settings(bootstrap: str, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The settings with which every client begins.

    Args:
        bootstrap: Address of the cluster.
        environ: Names the operator's file as `STATEWARD_KAFKA_CLIENT`; without it there are none of theirs.

    Raises:
        KafkaClientError: The file cannot be read, or has something that is not of entering a cluster.
    """
    file = environ.get(VARIABLE, "")
    theirs = _read(Path(file)) if file else {}
    return {**theirs, "bootstrap.servers": bootstrap, "logger": CLIENT_LOG}


def _read(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaClientError(
            f"{VARIABLE}: expected a file with settings of Kafka clients at {file}, found none that can be "
            f"read ({type(error).__name__}). Put it there, on every host that runs Spark."
        ) from error
    found = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        # The value may be a password, and stays out of the message.
        if not equals or not name.startswith(_MAY_BE_SET):
            raise KafkaClientError(
                f"{file}, line {number}: expected name=value, the name beginning with one of "
                f"{', '.join(_MAY_BE_SET)}, found {name if equals else 'no ='!r}. How to enter the cluster "
                "belongs here (docs/kafka.md); how records are read is the stream's own."
            )
        found[name] = value
    return found
