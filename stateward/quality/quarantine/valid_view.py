"""`<table>_valid`: all rows of a table but those that a critical expectation put into quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateward.contract import names
from stateward.quality.quarantine.quarantine import QUARANTINE
from stateward.quality.quarantine.quarantine_rules import quarantined_sql
from stateward.quality.quarantine.row_hash import row_hash_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HASH = "__row_hash"


class ValidViewError(RuntimeError):
    """The table has not been validated; the text says what to do."""


def register_valid(
    spark: SparkSession,
    tables_uri: str,
    stream: str,
    table: str,
    *,
    version: int | None = None,
    catalog: str | None = None,
) -> str:
    """Create or replace the view of a table's valid rows; return its name.

    The rows that are held back are looked up whenever the view is read, so that a view is created once. A
    view of an older version holds back what has been found in its rows since.

    Args:
        spark: a session with Delta.
        tables_uri: the folder of all tables, `<STATEWARD_DATA>/tables`.
        stream: the stream that writes the table.
        table: the table's name.
        version: a Delta version of it; None is whatever is newest when the view is read.
        catalog: where a persistent view is created, such as `main.silver` or `default`; None creates a
            temporary one.

    Raises:
        ValidViewError: the table has not been validated.
    """
    from deltalake import DeltaTable

    folder = tables_uri.rstrip("/")
    validations = f"{folder}/{names.QUALITY_VALIDATIONS}"
    if not DeltaTable.is_deltatable(validations):
        raise ValidViewError(
            f"{stream}: expected validations of {table} in {validations}, found none. Run the DAG"
            f" quality_{stream}, which finds out what is valid."
        )
    # Without a row in quarantine there is no table yet, and a view needs one.
    QUARANTINE.create(f"{folder}/{names.QUARANTINE}")
    name = f"{catalog}.{table}_valid" if catalog else f"{table}_valid"
    kind = "VIEW" if catalog else "TEMPORARY VIEW"
    query = valid_sql(folder, stream, table, version)
    spark.sql(f"CREATE OR REPLACE {kind} {name} AS {query}")
    return name


def valid_sql(tables_uri: str, stream: str, table: str, version: int | None = None) -> str:
    """Return the query of the view.

    Where no rows are held back, the join by hash is empty, and adaptive execution leaves it out.
    """
    folder = tables_uri.rstrip("/")
    then = "" if version is None else f" VERSION AS OF {int(version)}"
    hidden = quarantined_sql(
        _delta(f"{folder}/{names.QUARANTINE}"),
        _delta(f"{folder}/{names.QUALITY_VALIDATIONS}"),
        stream,
        table,
    )
    return f"""
      SELECT * EXCEPT ({_HASH}) FROM (
        SELECT *, {row_hash_sql()} AS {_HASH} FROM {_delta(f"{folder}/{table}")}{then}) live
      LEFT ANTI JOIN ({hidden}) held_back ON live.{_HASH} = held_back.row_hash
    """


def _delta(uri: str) -> str:
    return "delta.`" + uri.replace("`", "``") + "`"
