"""The tables of a stream as they are now, and whether they can go back to a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fsspec
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from stateward.runtime.api.tables import SHARED_TABLES
from stateward.state.savepoints.manifest import TableAt

_SHARED = {table.name for table in SHARED_TABLES}


def tables_at(stream: str, tables: Mapping[str, str]) -> dict[str, TableAt]:
    """The state of every table.

    Args:
        stream: The stream.
        tables: URIs by name, as the configuration has them.
    """
    return {name: _table_at(stream, name, uri) for name, uri in tables.items()}


def _table_at(stream: str, name: str, uri: str) -> TableAt:
    try:
        table = DeltaTable(uri)
    except TableNotFoundError:
        return TableAt(uri, None, None, {} if name in _SHARED else None)
    batches = _last_batches(table, stream) if name in _SHARED else None
    return TableAt(uri, table.version(), str(table.metadata().id), batches)


def _last_batches(table: DeltaTable, stream: str) -> dict[str, int]:
    """This stream's last batch in a shared table, by generation."""
    rows = table.to_pyarrow_dataset().to_table(
        columns=["generation", "batch_id"], filter=pc.field("stream") == stream
    )
    last = rows.group_by("generation").aggregate([("batch_id", "max")])
    return dict(zip(last["generation"].to_pylist(), last["batch_id_max"].to_pylist(), strict=True))


def why_not_back(name: str, then: TableAt) -> str | None:
    """Why a table cannot go back to what it was; None if it can.

    Every file of the version has to be there still: VACUUM removes those that no newer version has.
    """
    try:
        now = DeltaTable(then.uri)
    except TableNotFoundError:
        return None if then.version is None else f"{name}: expected a Delta table at {then.uri}, found none"
    if then.version is None or then.is_shared:
        return None
    if str(now.metadata().id) != then.table_id:
        return f"{name}: the table at {then.uri} was made anew since, so it has no version of that time"
    try:
        before = DeltaTable(then.uri, version=then.version)
        gone = set(before.file_uris()) - set(now.file_uris())
    except DeltaError as error:
        return f"{name}: its version {then.version} is no longer on record ({_first_line(error)})"
    missing = sum(not _exists(uri) for uri in gone)
    if missing:
        return f"{name}: {missing} files of its version {then.version} were vacuumed away"
    return None


def _exists(uri: str) -> bool:
    filesystem, path = fsspec.core.url_to_fs(uri)
    return bool(filesystem.exists(path))


def _first_line(error: BaseException) -> Any:
    return str(error).partition("\n")[0]
