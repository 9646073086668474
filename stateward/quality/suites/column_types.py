"""The columns that a table promises, as expectations: their names, and one type each."""

from __future__ import annotations

from typing import Any

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
"""By the type in a suite: that of Spark, and the words that name the expectation."""


class ColumnTypeError(ValueError):
    """The columns of a suite cannot be used; the text says what was expected."""


def contract(columns: object) -> list[dict[str, Any]]:
    """Return the fields of the expectations that the section `columns` of a suite stands for.

    Raises:
        ColumnTypeError: it is not a mapping of names to types.
    """
    if not isinstance(columns, dict) or not columns:
        raise ColumnTypeError(f"columns are a mapping of names to types, found {columns!r}.")
    if unknown := sorted({str(kind) for kind in columns.values()} - set(TYPES)):
        raise ColumnTypeError(f"a type of a column is one of {sorted(TYPES)}, found {unknown}.")
    return [_names(columns), *(_type(name, kind) for name, kind in columns.items())]


def _names(columns: dict[str, str]) -> dict[str, Any]:
    return {
        "name": "columns_are_those_of_the_contract",
        "type": "expect_table_columns_to_match_set",
        "kwargs": {"column_set": list(columns), "exact_match": True},
        "severity": "critical",
        "scope": "table",
        "means": "Readers of the table find exactly the columns they were promised.",
        "remedy": "Compare the stream's declaration.py with its page in docs; a new column belongs into"
        " `columns` of this suite too.",
    }


def _type(name: str, kind: str) -> dict[str, Any]:
    spark_type, words = TYPES[kind]
    return {
        "name": f"{name}_is_{words}",
        "type": "expect_column_values_to_be_of_type",
        "kwargs": {"column": name, "type_": spark_type},
        "severity": "critical",
        "scope": "table",
        "means": "The column has the type that readers were promised.",
        "remedy": "Look for a schema change in the table's history (DESCRIBE HISTORY), and restore the"
        " version before it.",
    }
