"""The table of a row: its columns follow from the fields of a named tuple (`stateward.contract.columns`)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from stateward.contract.columns import Col, Timestamp
from stateward.runtime.api.tables import Column, Table

NUMBER = "decimal(38,9)"
"""The type of a number that is added up: sums are exact."""

_TYPES: dict[Any, str] = {
    str: "string",
    int: "long",
    float: "double",
    bool: "boolean",
    bytes: "binary",
    Decimal: NUMBER,
    datetime: "timestamp",
}


def table_of(
    row: type[tuple[Any, ...]],
    name: str,
    *,
    partition_by: tuple[str, ...] = (),
    current_by: tuple[str, ...] = (),
    came_at: str = "",
) -> Table:
    """Make the table of a row. The first line of the row's docstring says what one row is.

    Args:
        row: The named tuple, each field with a `Col`.
        name: Name of the table in the configuration's ``tables``.
        partition_by: See `Table`.
        current_by: See `Table`.
        came_at: See `Table`.

    Raises:
        ValueError: A field has no `Col`, or a type that no column has; or an argument names no column.
    """
    found = [_column(row, field, hint) for field, hint in get_type_hints(row, include_extras=True).items()]
    names = [column.name for column, _ in found]
    for one in (*partition_by, *current_by, *filter(None, [came_at])):
        if one not in names:
            raise ValueError(
                f"table {name}: expected a column for partition_by, current_by or came_at, found {one}."
                f" The columns of {row.__name__} are {', '.join(names)}"
            )
    return Table(
        name,
        (row.__doc__ or "").partition("\n")[0].removesuffix("."),
        tuple(column for column, _ in found),
        partition_by,
        current_by,
        came_at,
        tuple(column.name for column, nullable in found if nullable),
    )


def _column(row: type[Any], field: str, hint: Any) -> tuple[Column, bool]:
    kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    declared = next((one for one in metadata if isinstance(one, Col)), None)
    if declared is None:
        raise ValueError(f"row {row.__name__}: expected field {field} to have a Col, found {hint}")
    kind, optional = _without_none(kind)
    delta_type = declared.type or _delta_type(kind)
    if not delta_type:
        raise ValueError(f"row {row.__name__}, field {field}: expected a type of a column, found {kind}")
    name = declared.name or field
    if isinstance(declared, Timestamp) and not declared.name:
        name = f"{field.removesuffix('_ms')}_at"
    column = Column(name, delta_type, declared.comment, declared.personal, declared.derived_from)
    return column, optional or declared.nullable


def _without_none(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) is not UnionType:
        return kind, False
    (left,) = (one for one in get_args(kind) if one is not NoneType)
    return left, True


def _delta_type(kind: Any) -> str:
    if get_origin(kind) not in (tuple, list):
        return _TYPES.get(kind, "")
    element, _ = _without_none(get_args(kind)[0])
    return f"array<{_TYPES[element]}>" if element in _TYPES else ""
