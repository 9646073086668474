"""The answer of an operation: shown in a terminal and on a page, and kept as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stateward.state.files.checkpoint_build import Step

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Listing:
    """A table.

    Attributes:
        title: What it shows.
        columns: The names of its columns.
        rows: Its rows, with a cell for each column.
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
        data: The answer for programs.
        is_good: False if something was found to be broken or different.
        whole_page: HTML of a page that replaces the one that all operations share.
    """

    lines: Sequence[str]
    listings: Sequence[Listing] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    is_good: bool = True
    whole_page: str = ""


def steps_listing(steps: Sequence[Step]) -> Listing:
    """The steps as a table of an answer."""
    rows = [(step.name, step.seconds, step.bytes_written) for step in steps]
    return Listing("Steps", ("step", "seconds", "bytes written"), rows)
