"""The Delta tables in which validations are written down: rows of named fields, appended once per run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

TEXT, WHOLE, REAL, TRUTH, TIME = "text", "whole", "real", "truth", "time"


def append_once(uri: str, fields: Mapping[str, str], rows: Iterable[Mapping[str, Any]], app_id: str) -> None:
    """Append rows to the table at `uri`, unless they have been under this `app_id`.

    A table of an earlier release gets the columns it lacks.

    Args:
        uri: the table; made when it is not there, partitioned by stream.
        fields: the kind of each field.
        rows: they have all of them.
        app_id: names the rows.
    """
    # deltalake and not Spark: a few rows are committed in a tenth of a second instead of four.
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    if DeltaTable.is_deltatable(uri) and DeltaTable(uri).transaction_version(app_id) is not None:
        return
    write_deltalake(
        uri,
        pa.Table.from_pylist([dict(row) for row in rows], schema=_schema(fields)),
        mode="append",
        partition_by=["stream"],
        schema_mode="merge",
        # Makes a second writer of the same run fail instead of appending twice.
        commit_properties=CommitProperties(app_transactions=[Transaction(app_id, 1)]),
    )


def _schema(fields: Mapping[str, str]) -> pa.Schema:
    import pyarrow as pa

    types = {
        TEXT: pa.string(),
        WHOLE: pa.int64(),
        REAL: pa.float64(),
        TRUTH: pa.bool_(),
        TIME: pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(name, types[kind]) for name, kind in fields.items()])
