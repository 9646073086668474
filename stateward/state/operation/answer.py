"""What an operation has to say: shown in a terminal and on a page, and kept as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Listing:
    """A table.

    Attributes:
        title: What it shows.
        columns: Their names.
        rows: A cell for each column.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Answer:
    """An operation's answer.

    Attributes:
        lines: Sentences, the most important first.
        listings: Tables under them.
        data: All of it for programs.
        is_good: Whether nothing was found to be wrong or different.
        whole_page: HTML of a page of its own, in place of the one that all operations share.
    """

    lines: Sequence[str]
    listings: Sequence[Listing] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    is_good: bool = True
    whole_page: str = ""
