"""Profile of a table's rows, from which a suite is drafted.

Not `profile.py`: spark-submit puts this folder on the path, and would hide Python's own module of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stateward.quality.privacy.personal import declared_table

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 1_000_000
"""At most so many rows of a table are profiled."""
MOST_VALUES = 10
"""A column with more distinct values has no list of them."""


@dataclass(frozen=True)
class ColumnProfile:
    """One column.

    Attributes:
        type: as Delta names it, without its details: `string`, `decimal`, `array`.
        nulls: rows without a value.
        values: all its values, sorted, when it is text with few of them and not personal.
        minimum: the smallest number; None when it has none.
        is_unique: whether every row has a value of its own.
    """

    name: str
    type: str
    nulls: int
    values: tuple[str, ...]
    minimum: float | None
    is_unique: bool


@dataclass(frozen=True)
class Profile:
    """A table.

    Attributes:
        version: Delta version that was profiled.
        rows: number of rows that were profiled.
        columns: in the table's order.
        ordered: pairs of times of which the first is never after the second.
    """

    table: str
    version: int
    rows: int
    columns: tuple[ColumnProfile, ...]
    ordered: tuple[tuple[str, str], ...]


def profile(uri: str, table: str) -> Profile:
    """Profile the rows of a Delta table at its current version.

    Raises:
        deltalake.exceptions.TableNotFoundError: there is no table at `uri`.
    """
    from deltalake import DeltaTable

    opened = DeltaTable(uri)
    rows = opened.to_pyarrow_dataset().head(MOST_ROWS)
    types = {field.name: _kind(field.type) for field in opened.schema().fields}
    declared = declared_table("", table)
    personal = declared.personal if declared else frozenset()
    columns = tuple(
        _column(name, kind, rows.column(name), is_personal=name in personal) for name, kind in types.items()
    )
    times = [name for name, kind in types.items() if kind == "timestamp"]
    return Profile(table, opened.version(), rows.num_rows, columns, _ordered(rows, times))


def _kind(delta_type: Any) -> str:
    # `type` has the name of a list, a map or a struct, and of a decimal with its details.
    return str(delta_type.type).partition("(")[0]


def _column(name: str, kind: str, values: pa.ChunkedArray, *, is_personal: bool) -> ColumnProfile:
    import pyarrow.compute as pc

    is_countable = kind in ("string", "long", "integer")
    distinct = pc.count_distinct(values, mode="only_valid").as_py() if is_countable else 0
    few = kind == "string" and not is_personal and 0 < distinct <= MOST_VALUES and distinct * 2 <= len(values)
    found = pc.min(values).as_py() if kind in ("long", "integer", "double", "decimal") else None
    return ColumnProfile(
        name=name,
        type=kind,
        nulls=values.null_count,
        values=tuple(sorted(value for value in pc.unique(values).to_pylist() if value is not None))
        if few
        else (),
        minimum=None if found is None else float(found),
        is_unique=kind == "string" and len(values) > 1 and distinct == len(values),
    )


def _ordered(rows: pa.Table, times: list[str]) -> tuple[tuple[str, str], ...]:
    import pyarrow.compute as pc

    def never_after(one: str, other: str) -> bool:
        held = pc.less_equal(rows[one], rows[other])
        return bool(pc.all(held).as_py()) and not bool(pc.all(pc.equal(rows[one], rows[other])).as_py())

    return tuple((one, other) for one in times for other in times if one != other and never_after(one, other))
