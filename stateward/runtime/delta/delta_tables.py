"""Delta tables that several processes create, write and clean up concurrently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError

from stateward.contract import storage

# An open DeltaTable grows by 100 kB with each commit.
_COMMITS_BETWEEN_OPENINGS = 64


def create_or_open(
    uri: str,
    schema: Schema | pa.Schema,
    *,
    name: str,
    description: str = "",
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
) -> DeltaTable:
    """Create the table at ``uri``, or open it unchanged if it exists.

    Args:
        uri: Its folder.
        schema: Its columns.
        name: Its name.
        description: What one row means.
        partition_by: Partition columns.
        configuration: Delta's table properties.
    """
    try:
        table = DeltaTable.create(
            uri,
            schema=schema,
            mode="ignore",
            partition_by=list(partition_by),
            name=name,
            description=description or None,
            configuration=configuration,
        )
    except CommitFailedError:
        # Another process created the table first ("Protocol changed since last commit").
        table = DeltaTable(uri)
    if table.version() == 0:
        storage.sync_disks([uri])
    return table


def has_commit(uri: str, version: int) -> bool:
    """Whether the log of the table at ``uri`` contains a version, and has not been cleaned of it."""
    return storage.exists(f"{uri}/_delta_log/{version:020d}.json")


class TableHandle:
    """Keeps a table open and reopens it only now and then: reading a log takes about 12 ms.

    Args:
        uri: The table.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._table: DeltaTable | None = None
        self._reopen_at = 0

    def current(self) -> DeltaTable:
        """The current version of the table.

        Raises:
            deltalake.exceptions.TableNotFoundError: It does not exist.
        """
        if self._table is None or self._is_to_be_opened(self._table):
            self._table = DeltaTable(self._uri)
            self._reopen_at = self._table.version() + _COMMITS_BETWEEN_OPENINGS
        else:
            self._table.update_incremental()
        return self._table

    def _is_to_be_opened(self, table: DeltaTable) -> bool:
        # After a table was deleted, a write to the open object would create a log without its first versions.
        return table.version() >= self._reopen_at or not has_commit(self._uri, table.version())
