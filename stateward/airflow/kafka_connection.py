"""The Kafka of the streams from an Airflow connection of the official provider's type.

The connection's extra has settings of librdkafka, `bootstrap.servers` among them. A driver outlives the task
that starts it and reads no connection, so its client settings are put into a file that only this user can
read. They are in no document, no command line and no environment.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stateward.contract.clients.kafka import MAY_BE_SET
from stateward.control.launchers.driver_process import LaunchError
from stateward.project.airflow_options import KAFKA_CONNECTION, create_connection
from stateward.project.settings import Settings

_LOG = logging.getLogger(__name__)
_BOOTSTRAP = "bootstrap.servers"
_TYPE = "kafka"


def with_kafka(settings: Settings) -> Settings:
    """Return the settings with the Kafka of the connection, unless they have an address.

    They stay as they are if no setting names a connection and the default one does not exist.

    Raises:
        LaunchError: The connection that a setting names does not exist, a connection is of another type, has
            no address, or its client settings cannot be kept.
    """
    if "kafka_bootstrap" in settings.model_fields_set:
        return settings
    extra = _extra(settings)
    if extra is None:
        return settings
    bootstrap = extra.get(_BOOTSTRAP)
    if not isinstance(bootstrap, str) or not bootstrap.strip():
        raise LaunchError(
            f"Airflow connection {settings.kafka_conn_id!r}: expected {_BOOTSTRAP!r} in its extra, found"
            f" {sorted(extra)}. Add it, such as kafka-1.example.com:9093."
        )
    changed: dict[str, Any] = {"kafka_bootstrap": bootstrap.strip()}
    if "embedded" not in settings.model_fields_set:
        changed["embedded"] = False
    if settings.kafka_client is None:
        changed["kafka_client"] = _keep(settings, extra)
    return settings.model_copy(update=changed)


def _extra(settings: Settings) -> Mapping[str, Any] | None:
    from airflow.sdk import BaseHook

    from stateward.airflow.compat import AirflowNotFoundException

    conn_id = settings.kafka_conn_id
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        if settings.names_kafka_connection:
            raise LaunchError(
                f"setting kafka_conn_id: expected the Airflow connection {conn_id!r}, found none."
                f" {create_connection(conn_id, KAFKA_CONNECTION)}"
            ) from error
        _LOG.info("there is no Airflow connection %r; the default address of Kafka is used", conn_id)
        return None
    if connection.conn_type != _TYPE:
        raise LaunchError(
            f"Airflow connection {conn_id!r}: expected the type {_TYPE!r}, found {connection.conn_type!r}."
            " Change it under Admin > Connections, or name another one by the setting kafka_conn_id."
        )
    extra: Mapping[str, Any] = connection.extra_dejson
    return extra


def _keep(settings: Settings, extra: Mapping[str, Any]) -> Path | None:
    """Write the client settings to a file; None if there are none. A driver reads it at each connect."""
    conn_id = settings.kafka_conn_id
    known = {name: value for name, value in extra.items() if name.startswith(MAY_BE_SET)}
    if ignored := sorted(extra.keys() - known.keys() - {_BOOTSTRAP}):
        _LOG.info("Airflow connection %r: %s are of the stream itself, and ignored", conn_id, ignored)
    if not known:
        return None
    lines = [_line(conn_id, name, value) for name, value in sorted(known.items())]
    file = settings.home / "kafka-connections" / f"{quote(conn_id, safe='')}.properties"
    text = "".join(lines)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.exists() and file.read_text(encoding="utf-8") == text:
            return file
        # Readable by this user only, from its first moment; and a reader sees the old one or the new one.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, delete=False) as new:
            new.write(text)
        os.replace(new.name, file)  # noqa: PTH105 - the name, which the context has closed
    except OSError as error:
        raise LaunchError(
            f"Airflow connection {conn_id!r}: expected to keep its client settings in {file}, found"
            f" {type(error).__name__}: {error.strerror}. Make the folder writable for Airflow."
        ) from error
    return file


def _line(conn_id: str, name: str, value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # The value may be a password, and stays out of the message.
    if not isinstance(value, str | int | float) or len(text.splitlines()) > 1 or text != text.strip():
        raise LaunchError(
            f"Airflow connection {conn_id!r}: expected as {name!r} one line of text or a number, found"
            " something else. Name a file where it has several lines (ssl.ca.location, not ssl.ca.pem)."
        )
    return f"{name} = {text}\n"
