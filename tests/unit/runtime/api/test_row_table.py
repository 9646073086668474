"""The columns of a table follow from the fields of its row."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest

from stateward.contract.columns import Col, Timestamp
from stateward.runtime.api.row_table import table_of
from stateward.runtime.api.tables import Column


class Row(NamedTuple):
    """One small thing.

    What is more about it.
    """

    thing_id: Annotated[str, Col("Identity", derived_from=("owner",))]
    owner: Annotated[str, Col("The owner", personal=True)]
    closed_ms: Annotated[int | None, Timestamp("When it closed")]
    start_ms: Annotated[int, Timestamp("When it began", name="window_start")]
    length_ms: Annotated[int, Col("How long it was, milliseconds", nullable=True)]
    price: Annotated[Decimal, Col("What it cost")]
    parts: Annotated[tuple[bytes | None, ...], Col("What it has")]
    place: Annotated[int, Col("Where it is", type="integer")]


def test_a_field_makes_a_column() -> None:
    table = table_of(Row, "things", current_by=("owner",), came_at="closed_at")
    assert (table.name, table.description, table.current_by, table.came_at) == (
        "things",
        "One small thing",
        ("owner",),
        "closed_at",
    )
    assert table.columns == (
        Column("thing_id", "string", "Identity", derived_from=("owner",)),
        Column("owner", "string", "The owner", personal=True),
        Column("closed_at", "timestamp", "When it closed"),
        Column("window_start", "timestamp", "When it began"),
        Column("length_ms", "long", "How long it was, milliseconds"),
        Column("price", "decimal(38,9)", "What it cost"),
        Column("parts", "array<binary>", "What it has"),
        Column("place", "integer", "Where it is"),
    )
    assert table.nullable == ("closed_at", "length_ms")


@pytest.mark.parametrize("given", [{"came_at": "closed_ms"}, {"current_by": ("ownr",)}])
def test_an_argument_that_names_no_column_is_refused_with_the_columns(given: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"table things: expected a column .* The columns of Row are thing_id"
    ):
        table_of(Row, "things", **given)


class Bare(NamedTuple):
    """No column."""

    one: str


class Odd(NamedTuple):
    """No type."""

    one: Annotated[dict[str, str], Col("A map")]


@pytest.mark.parametrize(
    ("row", "said"), [(Bare, "expected field one to have a Col"), (Odd, "expected a type of a column")]
)
def test_a_field_that_makes_no_column_is_refused(row: type[Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"row {row.__name__}.*{said}"):
        table_of(row, "things")
