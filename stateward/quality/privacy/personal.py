"""Which columns of a table hold personal data, and what may be expected of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateward.project.project import NoSuchStreamError, Project
from stateward.runtime.api.tables import SHARED_TABLES, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stateward.quality.suites.suite import Expectation
    from stateward.runtime.api.stream_job import Output

# Masking does not change their outcome: whether values are present, equal, and of which type.
_BLIND = frozenset(
    {
        "expect_column_to_exist",
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_be_null",
        "expect_column_values_to_be_unique",
        "expect_column_values_to_be_of_type",
        "expect_column_values_to_be_in_type_list",
        "expect_column_unique_value_count_to_be_between",
        "expect_column_proportion_of_unique_values_to_be_between",
        "expect_column_kl_divergence_to_be_less_than",
        "expect_column_pair_values_to_be_equal",
    }
)


def personal_columns(stream: str, table: str, types: Mapping[str, str]) -> frozenset[str]:
    """Return the columns of a table that people see masked: personal ones, and what is derived from them.

    A column without a declaration counts as personal if it is text or bytes.

    Args:
        stream: the stream that writes the table.
        table: the table's name.
        types: the columns that the table has now, and their types as Spark names them.
    """
    declared = declared_table(stream, table)
    known = {column.name: column.name in declared.personal for column in declared.columns} if declared else {}
    return frozenset(name for name, kind in types.items() if known.get(name, _may_be_personal(kind)))


def declared_table(stream: str, table: str) -> Table | None:
    """Return the declaration of a table, by its stream or by any other; None if there is none."""
    for name in (stream, "", *Project.imported().streams()):
        tables = [output.table for output in outputs_of(name)] if name else SHARED_TABLES
        for one in tables:
            if one.name == table:
                return one
    return None


def outputs_of(stream: str) -> tuple[Output, ...]:
    """Return what a stream declares to write, optional tables too; nothing if there is no such stream."""
    try:
        job = Project.imported().declaration(stream)
    except NoSuchStreamError:
        return ()
    return (*job.outputs, *job.optional_outputs)


def masking_conflict(expectations: Iterable[Expectation], personal: frozenset[str]) -> str | None:
    """Return which expectation looks into the masked values of a personal column; None if none does."""
    for one in expectations:
        named = {str(one.kwargs[key]) for key in ("column", "column_A", "column_B") if key in one.kwargs}
        if (found := sorted(named & personal)) and one.type not in _BLIND:
            return (
                f"expectation {one.name!r} looks into values of {', '.join(found)}, which are masked: the"
                " stream declares the column personal, or derived from a personal one. Use one of"
                f" {', '.join(sorted(_BLIND))}. Rules for the form of a value belong in the stream's"
                " admission rules (`Field`)."
            )
    return None


def _may_be_personal(kind: str) -> bool:
    return kind in ("string", "binary") or kind.startswith(("array<", "map<", "struct<", "varchar", "char"))
