"""Small files and sizes of all tables, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stateward.maintenance.maintain import Maintained
from stateward.rendering.human_units import format_bytes

COLUMNS = (
    "table",
    "files",
    "small",
    "size",
    "files on disk",
    "size on disk",
    "log entries",
    "opened in ms",
    "oldest version kept",
    "because of",
)


def cells(done: Maintained) -> tuple[str, ...]:
    """Format one row of the report; a number that has changed shows both values."""
    before, after = done.before, done.after

    def change(one: int, other: int) -> str:
        return f"{other:,}" if one == other else f"{one:,} → {other:,}"

    return (
        done.table,
        change(before.files, after.files),
        change(before.small_files, after.small_files),
        format_bytes(after.bytes),
        change(before.disk_files, after.disk_files),
        format_bytes(after.disk_bytes),
        change(before.log_entries, after.log_entries),
        f"{done.open_ms:.0f}",
        str(done.kept.oldest_version),
        done.kept.because,
    )


def lines(rows: Iterable[Sequence[str]]) -> list[str]:
    """Format the report as text, with its header; columns are as wide as their widest cell."""
    table = [COLUMNS, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
