"""The files of a table: in its current version, on disk, in its log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stateward.contract.storage import sizes_below

if TYPE_CHECKING:
    from datetime import date

    from deltalake import DeltaTable

_COMMIT = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint(?:\.[\w-]+)*\.(?:parquet|json)$")
_LOG = "_delta_log"
_MB = 1024 * 1024


@dataclass(frozen=True)
class Sizes:
    """The files of a table at one time.

    Attributes:
        version: The table's version.
        files: Number of files of that version.
        bytes: Size of those files, bytes.
        small_files: Number of files below a quarter of the target size.
        disk_files: Number of data files on disk, those of earlier versions included.
        disk_bytes: Size of the data files on disk, bytes.
        log_entries: Number of files in its log.
        first_on_record: The oldest version that can be read from the log.
        checkpoint: The newest version with a checkpoint; -1 without one.
    """

    version: int
    files: int
    bytes: int
    small_files: int
    disk_files: int
    disk_bytes: int
    log_entries: int
    first_on_record: int
    checkpoint: int


def sizes(table: DeltaTable, uri: str, target_mb: int) -> Sizes:
    """Count the files of a table.

    Args:
        table: The table.
        uri: Its folder.
        target_mb: Size of the files that a compaction writes, MiB.
    """
    live = _files(table)
    small = sum(one["size_bytes"] < _small(target_mb) for one in live)
    names, disk_files, disk_bytes = _listed(uri)
    commits = [int(found[1]) for name in names if (found := _COMMIT.match(name))]
    checkpoints = [int(found[1]) for name in names if (found := _CHECKPOINT.match(name))]
    # Without a checkpoint a version is read from all commits, from the first on.
    whole = checkpoints if 0 not in commits else [0, *checkpoints]
    return Sizes(
        table.version(),
        len(live),
        sum(one["size_bytes"] for one in live),
        small,
        disk_files,
        disk_bytes,
        len(names),
        min(whole, default=table.version()),
        max(checkpoints, default=-1),
    )


def _listed(uri: str) -> tuple[list[str], int, int]:
    """Names of the log's files, and number and bytes of the data files."""
    log, data = [], []
    for path, size in sizes_below(uri).items():
        parts = path.split("/")
        if parts[0] == _LOG:
            log.append(parts[-1])
        elif not parts[-1].startswith((".", "_")):
            data.append(size)
    return log, len(data), sum(data)


def _small(target_mb: int) -> int:
    return target_mb * _MB // 4


def _files(table: DeltaTable) -> list[dict[str, Any]]:
    import pyarrow as pa

    actions = pa.table(table.get_add_actions())
    names = [name for name in ("size_bytes", "partition") if name in actions.column_names]
    return [dict(row) for row in actions.select(names).to_pylist()]


def date_column(table: DeltaTable) -> str | None:
    """The partition column with a date; None if there is none."""
    kinds = {field.name: str(field.type) for field in table.schema().fields}
    dates = [name for name in table.metadata().partition_columns if '"date"' in kinds[name]]
    return dates[0] if dates else None


def most_small_in_a_partition(table: DeltaTable, target_mb: int, before: date) -> int:
    """Count the small files of the closed partition with the most of them.

    Args:
        table: The table.
        target_mb: Size of the files that a compaction writes, MiB.
        before: Partitions of this date and later are open.
    """
    day = date_column(table)
    counts: dict[str, int] = {}
    for one in _files(table):
        partition = one.get("partition") or {}
        is_open = day is not None and (partition[day] is None or partition[day] >= before)
        if one["size_bytes"] < _small(target_mb) and not is_open:
            counts[repr(partition)] = counts.get(repr(partition), 0) + 1
    return max(counts.values(), default=0)
