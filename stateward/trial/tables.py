"""Shows what a stream makes of lines, as tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stateward.contract.names import DEAD_LETTERS, LATE_EVENTS
from stateward.contract.stream_status import OUTCOMES
from stateward.trial.from_lines import Found, Row

_TEXT_LENGTH = 200
_ENDS = (*OUTCOMES, "others")
# The columns of the shared tables that a reader needs: a record's line stands for its place in Kafka.
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    DEAD_LETTERS: ("line", "reason", "detail", "value"),
    LATE_EVENTS: ("line", "key", "event_id", "event_time", "watermark"),
}


def show(console: Console, found: Found, topics: Sequence[str], most: int) -> None:
    """Print the tables, and a line with how many records there were, by their outcomes.

    Args:
        console: Where.
        found: What the stream has made of the lines.
        topics: The topics of the lines; with several the topic of a line is shown.
        most: How many rows of a table are shown.
    """
    for name, rows in found.rows.items():
        if name not in (DEAD_LETTERS, LATE_EVENTS):
            _show(console, name, rows, found.at_end[name], most)
    for name, columns in _COLUMNS.items():
        if rows := found.rows.get(name, []):
            shown = [
                {one: row["offset"] + 1 if one == "line" else row[one] for one in (*_topic(topics), *columns)}
                for row in rows
            ]
            _show(console, name, shown, 0, most)
    outcomes = ", ".join(f"{found.counts[name]} {name}" for name in _ENDS if found.counts[name])
    console.print(f"{_many(found.counts['records'], 'record')} ({outcomes or 'none'})", highlight=False)


def _topic(topics: Sequence[str]) -> tuple[str, ...]:
    return ("topic",) if len(topics) > 1 else ()


def _show(console: Console, name: str, rows: Sequence[Row], at_end: int, most: int) -> None:
    end = f", {at_end} of them after the last line" if at_end else ""
    table = Table(title=f"{name}: {_many(len(rows), 'row')}{end}", title_justify="left", box=SIMPLE_HEAD)
    for column in rows[0] if rows else ():
        table.add_column(column, overflow="fold")
    for row in rows[:most]:
        table.add_row(*(Text(_text(value)) for value in row.values()))
    if rows:
        console.print(table)
    else:
        console.print(f"{name}: no rows", highlight=False)
    if len(rows) > most:
        console.print(f"only the first {most} rows are shown", highlight=False)


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    if len(text) > _TEXT_LENGTH:
        text = f"{text[:_TEXT_LENGTH]}… ({len(text)} characters)"
    # A record may hold what moves the cursor of a terminal.
    return "".join("�" if unicodedata.category(one) == "Cc" else one for one in text)
