"""The expectations that follow from a table's declaration: about its columns, their types, and the id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stateward.runtime.api.tables import Table

TYPES = {
    "string": ("StringType", "text"),
    "integer": ("IntegerType", "an_integer"),
    "long": ("LongType", "a_long"),
    "short": ("ShortType", "a_short"),
    "byte": ("ByteType", "a_byte"),
    "float": ("FloatType", "a_float"),
    "double": ("DoubleType", "a_double"),
    "decimal": ("DecimalType", "a_decimal"),
    "boolean": ("BooleanType", "true_or_false"),
    "timestamp": ("TimestampType", "a_timestamp"),
    "date": ("DateType", "a_date"),
    "binary": ("BinaryType", "bytes"),
    "array": ("ArrayType", "a_list"),
    "map": ("MapType", "a_map"),
    "struct": ("StructType", "a_record"),
}
"""By the type in a suite: Spark's type, and the ending of the expectation's name."""

_WRITTEN_TWICE = (
    "Rows were written twice, most likely by a restore under a new query id or by a writer outside of the"
    " lease. See the table's history for the versions that hold the failing rows, and RESTORE to the one"
    " before."
)
_NOT_REPLACED = (
    "A row was added instead of replaced, most likely by a writer outside of the lease. See the table's"
    " history for the version that holds the failing rows first, and RESTORE to the one before."
)
_WITHOUT_VALUE = (
    "See the table's history for the writer of the rows. If it is the stream, its logic or its admission"
    " rules have a defect: keep the failing rows, and stop the stream before more are written. If it is"
    " another program, find out who may write the table."
)
ONLY_ADDED = {
    "name": "rows_are_only_added",
    "type": "unexpected_rows_expectation",
    "kwargs": {
        "unexpected_rows_query": "SELECT version, timestamp, operation, parameters, files_removed"
        " FROM {commits} WHERE files_removed > 0 AND operation <> 'RESTORE'"
    },
    "severity": "critical",
    "means": "The stream only adds rows; none was deleted or changed by hand.",
    "remedy": "The versions that removed rows are listed. Compare each with the one before (docs/quality.md,"
    " Looking further), find out who may write the table, and RESTORE it if the rows are missed.",
}


class ColumnTypeError(ValueError):
    """The columns of a suite cannot be used; the text says what was expected."""


def declared_columns(table: Table) -> dict[str, str]:
    """Return the columns of a table, each with its type as a suite names it: without details."""
    return {column.name: column.type.partition("<")[0].partition("(")[0] for column in table.columns}


def of_columns(columns: object) -> list[dict[str, Any]]:
    """Return the fields of the expectations about columns and their types.

    Args:
        columns: The section `columns` of a suite, or `declared_columns`.

    Raises:
        ColumnTypeError: It is not a mapping of names to types.
    """
    if not isinstance(columns, dict) or not columns:
        raise ColumnTypeError(f"columns are a mapping of names to types, found {columns!r}.")
    if unknown := sorted({str(kind) for kind in columns.values()} - set(TYPES)):
        raise ColumnTypeError(f"a type of a column is one of {sorted(TYPES)}, found {unknown}.")
    return [_names(columns), *(_type(name, kind) for name, kind in columns.items())]


def of_rows(table: Table, *, is_appended: bool) -> list[dict[str, Any]]:
    """Return the fields of the expectations about the rows of a table.

    Every column has a value unless the table declares it nullable. The id of a row is unique: the one column
    of `current_by`, or else a first column that is derived from others.

    Args:
        table: Its declaration.
        is_appended: Whether rows are only ever added.
    """
    found = [_present(column.name) for column in table.columns if column.name not in table.nullable]
    if len(table.current_by) == 1:
        means = f"The table has one current row for each {table.current_by[0]}."
        found.append(_unique(table.current_by[0], means, _NOT_REPLACED))
    elif not table.current_by and table.columns[0].derived_from:
        found.append(_unique(table.columns[0].name, "Every row is in the table once.", _WRITTEN_TWICE))
    return [*found, dict(ONLY_ADDED)] if is_appended else found


def _names(columns: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": "columns_are_those_of_the_contract",
        "type": "expect_table_columns_to_match_set",
        "kwargs": {"column_set": list(columns), "exact_match": True},
        "severity": "critical",
        "scope": "table",
        "means": "Readers of the table find exactly the columns they were promised.",
        "remedy": "Look for a schema change in the table's history (DESCRIBE HISTORY). A new column belongs"
        " in the stream's declaration.",
    }


def _type(name: str, kind: str) -> dict[str, Any]:
    spark_type, ending = TYPES[kind]
    return {
        "name": f"{name}_is_{ending}",
        "type": "expect_column_values_to_be_of_type",
        "kwargs": {"column": name, "type_": spark_type},
        "severity": "critical",
        "scope": "table",
        "means": "The column has the type that readers were promised.",
        "remedy": "Look for a schema change in the table's history (DESCRIBE HISTORY), and restore the"
        " version before it.",
    }


def _present(column: str) -> dict[str, Any]:
    return {
        "name": f"{column}_is_present",
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": column},
        "severity": "critical",
        "means": f"Every row has a value in {column}.",
        "remedy": _WITHOUT_VALUE,
    }


def _unique(column: str, means: str, remedy: str) -> dict[str, Any]:
    return {
        "name": f"{column}_is_unique",
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": column},
        "severity": "critical",
        "scope": "keys",
        "means": means,
        "remedy": remedy,
    }
