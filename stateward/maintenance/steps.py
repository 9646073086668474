"""The steps of a table's maintenance. A step that conflicts with another commit leaves its work for later.

Only ``deltalake``'s own functions change anything. An append does not conflict with a compaction; the writers
of streams retry their other commits (`stateward/runtime/delta/commit_retry.py`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import wraps
from typing import ParamSpec

from deltalake import DeltaTable, WriterProperties
from deltalake.exceptions import CommitFailedError

from stateward.maintenance.table_files import date_column, most_small_in_a_partition

# Records arrive some time after the day to which they belong.
_DAY_ENDS_LATER = timedelta(hours=1)
_DEFAULT_INTERVAL = 100
_MB = 1024 * 1024
_P = ParamSpec("_P")
GAVE_WAY = "not done: another commit has changed the same files; the next run tries again"


def giving_way(step: Callable[_P, str]) -> Callable[_P, str]:
    """Let a step leave its work for the next run if another commit conflicts with it."""

    @wraps(step)
    def tried(*args: _P.args, **kwargs: _P.kwargs) -> str:
        try:
            return step(*args, **kwargs)
        except CommitFailedError:
            return GAVE_WAY

    return tried


@giving_way
def align(uri: str, properties: Mapping[str, str], *, dry_run: bool) -> str:
    """Set a table's properties to those of its policy; commits only a difference."""
    table = DeltaTable(uri)
    now = table.metadata().configuration
    other = {name: value for name, value in properties.items() if now.get(name) != value}
    if not other:
        return "as they should be"
    if not dry_run:
        table.alter.set_table_properties(other)
    return ", ".join(f"{name.removeprefix('delta.')} = {value}" for name, value in sorted(other.items()))


@giving_way
def compact(uri: str, *, small_files: int, target_mb: int, now: datetime, dry_run: bool) -> str:
    """Compact small files of closed partitions.

    A date's partition is closed when that day is over. In a table without dates a file is closed once it is
    committed, because files are never appended to.
    """
    table = DeltaTable(uri)
    today = (now - _DAY_ENDS_LATER).date()
    most = most_small_in_a_partition(table, target_mb, today)
    if most < small_files:
        return f"not needed: at most {most} small files in a closed partition"
    if dry_run:
        return f"{most} small files in a closed partition"
    day = date_column(table)
    metrics = table.optimize.compact(
        partition_filters=[(day, "<", today.isoformat())] if day else None,
        target_size=target_mb * _MB,
        # Leaves memory and cores to the streams.
        max_concurrent_tasks=1,
        writer_properties=WriterProperties(compression="ZSTD"),
    )
    # A power loss must not leave a commit whose file is incomplete below commits of the stream.
    os.sync()
    return f"{metrics['numFilesRemoved']} files into {metrics['numFilesAdded']}"


@giving_way
def vacuum(uri: str, *, history: timedelta, pinned: Sequence[int], dry_run: bool) -> str:
    """Remove data files that no retained version needs.

    Files that left the table within ``deletedFileRetentionDuration``, which `align` sets to ``history``,
    stay, and so do files of the pinned versions. The vacuum is a full one, because a checkpoint of the log
    drops files that left longer ago than that property says. Both must use the same retention: with another
    one, a file that left recently would look like an unknown file.
    """
    table, kept = DeltaTable(uri), list(pinned) or None
    if dry_run:
        hours = math.ceil(history / timedelta(hours=1))
        files = table.vacuum(hours, enforce_retention_duration=False, full=True, keep_versions=kept)
        return f"{len(files)} files would go"
    return f"{len(table.vacuum(dry_run=False, full=True, keep_versions=kept))} files removed"


def checkpoint(uri: str, newest: int) -> str:
    """Write a checkpoint of the log, so that the table is opened from it.

    Args:
        uri: The table.
        newest: The newest version that has one.
    """
    table = DeltaTable(uri)
    interval = int(table.metadata().configuration.get("delta.checkpointInterval", _DEFAULT_INTERVAL))
    version = table.version()
    # The writer of a version with that number writes its checkpoint, possibly now.
    if version == newest or version % interval == 0:
        return "there is one"
    table.create_checkpoint()
    return f"of version {version}"


def clean_log(uri: str, oldest_version: int) -> str:
    """Remove log entries that the given version and later ones do not need.

    Delta keeps the checkpoint before the open version, and entries younger than ``logRetentionDuration``.
    """
    os.sync()  # if the removal survives a power loss, so must the checkpoint
    DeltaTable(uri, version=oldest_version).cleanup_metadata()
    return f"kept from version {oldest_version} on"
