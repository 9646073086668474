"""The credentials of object storage from an Airflow connection of the Amazon provider's type.

Three libraries open a URI, and all of them read the same variables of the environment. So the credentials are
put into that of this process, which drivers and jobs inherit. They are in no document, argument or log.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

from stateward.project.airflow_options import STORAGE_CONNECTION, create_connection
from stateward.project.settings import Settings

_TYPE = "aws"


class StorageConnectionError(ValueError):
    """The connection that the setting `storage_conn_id` names cannot be used."""


def use_storage(settings: Settings) -> None:
    """Let this process, and those that it starts, reach object storage by the connection of the settings.

    Does nothing without the setting, and after the first time: a changed connection takes effect with the
    next process.

    Raises:
        StorageConnectionError: The connection does not exist, is of another type, or has no key.
    """
    from airflow.sdk import BaseHook

    _use(settings, BaseHook.get_connection)


def use_storage_in_command(settings: Settings) -> None:
    """Do the same in a process that is none of Airflow's, unless its environment has keys.

    Raises:
        StorageConnectionError: See `use_storage`.
    """
    if not settings.storage_conn_id or "AWS_ACCESS_KEY_ID" in os.environ:
        return
    with _logs_as_before():
        # The Task SDK would not ask the metadata database here.
        from airflow.models import Connection

        _use(settings, Connection.get_connection_from_secrets)


@contextmanager
def _logs_as_before() -> Iterator[None]:
    """Keep what every library logs out of a command's output, into which an import of Airflow puts it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _use(settings: Settings, get: Callable[[str], Any]) -> None:
    if settings.storage_conn_id and settings.storage_conn_id not in _used:
        os.environ.update(_environment(settings.storage_conn_id, get))
        _used.add(settings.storage_conn_id)


_used: set[str] = set()


def _environment(conn_id: str, get: Callable[[str], Any]) -> dict[str, str]:
    from stateward.airflow.compat import AirflowNotFoundException

    try:
        connection = get(conn_id)
    except AirflowNotFoundException as error:
        raise StorageConnectionError(
            f"setting storage_conn_id: expected the Airflow connection {conn_id!r}, found none."
            f" {create_connection(conn_id, STORAGE_CONNECTION)}"
        ) from error
    if connection.conn_type != _TYPE:
        raise StorageConnectionError(
            f"Airflow connection {conn_id!r}: expected the type {_TYPE!r}, found {connection.conn_type!r}."
            " Change it under Admin > Connections, or name another one by the setting storage_conn_id."
        )
    if not connection.login or not connection.password:
        raise StorageConnectionError(
            f"Airflow connection {conn_id!r}: expected an access key as login and its secret as password,"
            " found no such pair. Add it, or unset storage_conn_id where hosts have a role of their own."
        )
    extra: Mapping[str, Any] = connection.extra_dejson
    endpoint = extra.get("endpoint_url")
    found = {
        "AWS_ACCESS_KEY_ID": connection.login,
        "AWS_SECRET_ACCESS_KEY": connection.password,
        "AWS_SESSION_TOKEN": extra.get("aws_session_token"),
        "AWS_REGION": extra.get("region_name"),
        "AWS_DEFAULT_REGION": extra.get("region_name"),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true" if str(endpoint).startswith("http://") else None,
    }
    return {name: str(value) for name, value in found.items() if value}
