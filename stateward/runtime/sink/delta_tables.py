"""Delta tables that several processes create, write and clean away at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError

from stateward.contract import storage
from stateward.contract.durable import sync_disks


def create_or_open(
    uri: str,
    schema: Schema | pa.Schema,
    *,
    name: str,
    description: str = "",
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
) -> DeltaTable:
    """The table at ``uri``; one that is there already is left as it is.

    Args:
        uri: Its folder.
        schema: Its columns.
        name: What it is called.
        description: What one row is.
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
        # Two saw no table and both made one: the other was first ("Protocol changed since last commit").
        table = DeltaTable(uri)
    if table.version() == 0:
        sync_disks([uri])
    return table


def has_commit(uri: str, version: int) -> bool:
    """Whether a version of the table at ``uri`` is there, and its log not yet cleaned of it."""
    return storage.exists(f"{uri}/_delta_log/{version:020d}.json")
