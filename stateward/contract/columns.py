"""Columns of a table, declared at the fields of the named tuple that is its row.

    class ClosedSession(NamedTuple):
        user_id: Annotated[str, Col("The user", personal=True)]
        closed_ms: Annotated[int, Timestamp("Event time at which it closed")]

The type of a column follows from that of the field, and so does whether it may be null (`| None`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Col:
    """What a column says beyond the name and the type of its field.

    Attributes:
        comment: What it means.
        name: Its name, where that is not the field's.
        type: Its type in Delta, where that does not follow from the field's.
        personal: Whether its values tell of one person.
        derived_from: Columns from which its values are computed.
        nullable: Whether readers are promised no value, though the field always has one.
    """

    comment: str
    name: str = ""
    type: str = ""
    personal: bool = False
    derived_from: tuple[str, ...] = ()
    nullable: bool = False


@dataclass(frozen=True)
class Timestamp(Col):
    """A time: milliseconds since 1970 UTC in the row `closed_ms`, a timestamp in the column `closed_at`."""

    type: str = "timestamp"
