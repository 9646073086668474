"""The steps of a table's maintenance. Each gives way to whoever else commits, and leaves its work for later.

Only ``deltalake``'s own functions change anything. An append and a compaction pass each other; what else the
writers of streams do is tried again by them (`stateward/runtime/sink/commit_retry.py`).
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

# Records come some time after the day they belong to.
_DAY_ENDS_LATER = timedelta(hours=1)
_DEFAULT_INTERVAL = 100
_MB = 1024 * 1024
_P = ParamSpec("_P")
GAVE_WAY = "not done: somebody else has changed the same files; the next run tries again"


def _giving_way(step: Callable[_P, str]) -> Callable[_P, str]:
    @wraps(step)
    def tried(*args: _P.args, **kwargs: _P.kwargs) -> str:
        try:
            return step(*args, **kwargs)
        except CommitFailedError:
            return GAVE_WAY

    return tried


@_giving_way
def align(uri: str, properties: Mapping[str, str], *, dry_run: bool) -> str:
    """Give a table the properties of its policy; a commit only if they are others."""
    table = DeltaTable(uri)
    now = table.metadata().configuration
    other = {name: value for name, value in properties.items() if now.get(name) != value}
    if not other:
        return "as they should be"
    if not dry_run:
        table.alter.set_table_properties(other)
    return ", ".join(f"{name.removeprefix('delta.')} = {value}" for name, value in sorted(other.items()))


@_giving_way
def compact(uri: str, *, small_files: int, target_mb: int, now: datetime, dry_run: bool) -> str:
    """Put small files of closed partitions together.

    A partition of a date is closed when that day is over. In a table without dates a file is closed once it
    is committed: nobody appends to a file.
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
        # A stream runs beside it.
        max_concurrent_tasks=1,
        writer_properties=WriterProperties(compression="ZSTD"),
    )
    # After a power loss a commit could be there over a file that is not whole, below those of the stream.
    os.sync()
    return f"{metrics['numFilesRemoved']} files into {metrics['numFilesAdded']}"


@_giving_way
def vacuum(uri: str, *, history: timedelta, pinned: Sequence[int], dry_run: bool) -> str:
    """Remove data files that no version needs which is to be kept.

    Files that left the table within ``deletedFileRetentionDuration``, which `align` has made ``history``,
    stay, and files of the pinned versions. Full, for a checkpoint of the log forgets which files have left
    longer ago than that property says. So the two are to be one: another retention than the property's would
    take a file that left lately for one that nobody has ever known.
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
    # Whoever makes a version of that number writes its checkpoint, perhaps at this very moment.
    if version == newest or version % interval == 0:
        return "there is one"
    table.create_checkpoint()
    return f"of version {version}"


def clean_log(uri: str, oldest_version: int) -> str:
    """Remove log entries that no version needs from the given one on.

    Delta goes by the version that is open, keeps the checkpoint before it, and whatever is younger than
    ``logRetentionDuration``.
    """
    os.sync()  # the checkpoint is to survive a power loss if their removal does
    DeltaTable(uri, version=oldest_version).cleanup_metadata()
    return f"kept from version {oldest_version} on"
