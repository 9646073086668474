"""The table `table_maintenance`: a row for each table and run, from which its growth can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from stateward.maintenance.maintain import Maintained


def _schema() -> pa.Schema:
    import pyarrow as pa

    whole = [
        f"{what}_{when}"
        for what in ("files", "small_files", "bytes", "disk_files", "disk_bytes", "log_entries")
        for when in ("before", "after")
    ]
    return pa.schema(
        [
            ("table", pa.string()),
            ("table_id", pa.string()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("run_id", pa.string()),
            ("version", pa.int64()),
            *((name, pa.int64()) for name in whole),
            ("oldest_version_kept", pa.int64()),
            ("kept_because", pa.string()),
            ("versions_pinned", pa.int64()),
            ("steps", pa.string()),
            ("open_ms", pa.float64()),
            ("seconds", pa.float64()),
        ]
    )


def append(uri: str, done: Maintained, run_id: str) -> None:
    """Append the row of one table.

    Args:
        uri: The table `table_maintenance`; made by the first row.
        done: The result of the maintenance.
        run_id: The run, as Airflow names it, or `cli`.
    """
    import pyarrow as pa
    from deltalake import write_deltalake

    row = {
        "table": done.table,
        "table_id": done.table_id,
        "at": done.at,
        "run_id": run_id,
        "version": done.after.version,
        **{
            f"{what}_{when}": getattr(found, what)
            for what in ("files", "small_files", "bytes", "disk_files", "disk_bytes", "log_entries")
            for when, found in (("before", done.before), ("after", done.after))
        },
        "oldest_version_kept": done.kept.oldest_version,
        "kept_because": done.kept.because,
        "versions_pinned": len(done.kept.pinned),
        "steps": "; ".join(f"{step}: {what}" for step, what in done.steps.items()),
        "open_ms": done.open_ms,
        "seconds": done.seconds,
    }
    write_deltalake(uri, pa.Table.from_pylist([row], schema=_schema()), mode="append")
