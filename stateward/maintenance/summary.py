"""Small files and sizes of all tables, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stateward.maintenance.maintain import Maintained

COLUMNS = (
    "table",
    "files",
    "small",
    "MB",
    "files on disk",
    "MB on disk",
    "log entries",
    "opened in ms",
    "oldest version kept",
    "because of",
)
_MB = 1024 * 1024


def cells(done: Maintained) -> tuple[str, ...]:
    """One line of the report; of a number that has changed both values."""
    before, after = done.before, done.after

    def change(one: int, other: int) -> str:
        return f"{other:,}" if one == other else f"{one:,} → {other:,}"

    return (
        done.table,
        change(before.files, after.files),
        change(before.small_files, after.small_files),
        f"{after.bytes / _MB:,.1f}",
        change(before.disk_files, after.disk_files),
        f"{after.disk_bytes / _MB:,.1f}",
        change(before.log_entries, after.log_entries),
        f"{done.open_ms:.0f}",
        str(done.kept.oldest_version),
        done.kept.because,
    )


def lines(rows: Iterable[Sequence[str]]) -> list[str]:
    """The report as text, with its head; columns are as wide as their widest cell."""
    table = [COLUMNS, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
