"""Which rows break an expectation, as SQL.

On Spark, Great Expectations returns failing values, but neither their rows nor row ids. So the rows are
selected by the expectation's condition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stateward.quality.validation.expectations import Outcome
    from stateward.quality.validation.frames import Frames
    from stateward.quality.validation.records import Validation

BATCH = "{batch}"
"""Stands for the table's name in a query, as in Great Expectations."""

_VIEW = "rows_of_the_expectation"

_Condition = Callable[[dict[str, Any]], str]


def _name(column: object) -> str:
    return "`" + str(column).replace("`", "``") + "`"


def _literal(value: object) -> str:
    if isinstance(value, bool | int | float):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def _not_null(kwargs: dict[str, Any]) -> str:
    return f"{_name(kwargs['column'])} IS NULL"


def _unique(kwargs: dict[str, Any]) -> str:
    column = _name(kwargs["column"])
    return f"{column} IN (SELECT {column} FROM {BATCH} GROUP BY {column} HAVING count(*) > 1)"


def _in_set(kwargs: dict[str, Any]) -> str:
    allowed = ", ".join(_literal(value) for value in kwargs["value_set"])
    return f"{_name(kwargs['column'])} NOT IN ({allowed})"


def _between(kwargs: dict[str, Any]) -> str:
    column = _name(kwargs["column"])
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    bounds = []
    if low is not None:
        bounds.append(f"{column} {'<=' if kwargs.get('strict_min') else '<'} {_literal(low)}")
    if high is not None:
        bounds.append(f"{column} {'>=' if kwargs.get('strict_max') else '>'} {_literal(high)}")
    return " OR ".join(bounds)


def _a_greater_than_b(kwargs: dict[str, Any]) -> str:
    comparison = ">=" if kwargs.get("or_equal") else ">"
    return f"NOT ({_name(kwargs['column_A'])} {comparison} {_name(kwargs['column_B'])})"


_CONDITIONS: dict[str, _Condition] = {
    "expect_column_values_to_not_be_null": _not_null,
    "expect_column_values_to_be_unique": _unique,
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_be_between": _between,
    "expect_column_pair_values_a_to_be_greater_than_b": _a_greater_than_b,
}


def failing_rows_query(kind: str, kwargs: dict[str, Any]) -> str | None:
    """Return a query for the rows that break an expectation, with `{batch}` for the rows it covers.

    Args:
        kind: its type.
        kwargs: its arguments.

    Returns:
        SQL text, or None when the expectation is about the whole table or its type has no condition here.
    """
    if kind == "unexpected_rows_expectation":
        return str(kwargs["unexpected_rows_query"])
    condition = _CONDITIONS.get(kind)
    return f"SELECT * FROM {BATCH} WHERE {condition(kwargs)}" if condition else None


@dataclass(frozen=True)
class Validated:
    """A validation whose outcomes are known and not recorded yet.

    Attributes:
        validation: what was validated.
        outcomes: one per expectation, in the suite's order.
        frames: the rows they were evaluated on.
    """

    validation: Validation
    outcomes: tuple[Outcome, ...]
    frames: Frames

    def breaking_frame(self, outcome: Outcome) -> DataFrame | None:
        """Return the rows that break the expectation; those of a query may have other columns."""
        from pyspark.errors import AnalysisException

        expectation = outcome.expectation
        query = failing_rows_query(expectation.type, outcome.kwargs)
        if outcome.success or query is None:
            return None
        frame = self.frames.batch if expectation.query is not None else self.frames.of(expectation)[1]
        frame.createOrReplaceTempView(_VIEW)
        try:
            return self.frames.spark.sql(query.replace(BATCH, _VIEW))
        except AnalysisException:
            # The column is missing or of another type, which the outcome shows already.
            return None
