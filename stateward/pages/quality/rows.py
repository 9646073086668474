"""What is shown of rows in `quarantine`: their masked values, and where in Kafka they came from. Pure.

Values of personal columns are masked before a row is kept; nobody can mask them here, for the declarations
are on the other side of the wall. So this is the one way by which a row gets onto a page, and it takes
nothing but the masked row and places in Kafka: not the hash by which the row is found again, and no ids of
events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN = 10
"""So many rows of each failure."""

_LONGEST = 160
_MOST_OFFSETS = 5


@dataclass(frozen=True)
class Example:
    """A row that breaks an expectation.

    Attributes:
        values: By column, as text; None where the row has no value. Empty for a finding about a whole table.
        offsets: Where its events are in Kafka, or what the batch read that wrote it, such as
            `user_events 0: 1042, 1057`.
        brought: What wrote it, such as `version 17, batch 231`.
        is_hidden: Whether it has values that are not shown, because an earlier release has masked fewer.
    """

    values: Mapping[str, str | None]
    offsets: tuple[str, ...] = ()
    brought: tuple[str, ...] = ()
    is_hidden: bool = False


@dataclass(frozen=True)
class Examples:
    """Rows with the same columns, as a table of a page has them."""

    columns: tuple[str, ...]
    rows: tuple[Example, ...]


def examples_of(entries: Iterable[Mapping[str, Any]]) -> Examples:
    """Read rows of `quarantine`, up to ten of one failure."""
    rows = [_example(entry) for entry in entries]
    rows.sort(key=lambda one: json.dumps(dict(one.values), sort_keys=True))
    columns = dict.fromkeys(name for row in rows for name in row.values)
    return Examples(tuple(columns), tuple(rows[:SHOWN]))


def _example(entry: Mapping[str, Any]) -> Example:
    row, origin = _document(entry.get("row")), _document(entry.get("origin"))
    # The column came with the masks of what is derived from personal columns.
    is_hidden = bool(row) and entry.get("masked_columns") is None
    commits = [one for one in origin.get("commits") or () if isinstance(one, dict)]
    events = origin.get("events")
    offsets = _of_events(events) if isinstance(events, dict) else ()
    return Example(
        values={} if is_hidden else {name: _text(value) for name, value in row.items()},
        offsets=offsets or tuple(line for one in commits for line in _of_batch(one)),
        brought=tuple(_brought(one) for one in commits),
        is_hidden=is_hidden,
    )


def _of_events(events: Mapping[str, Any]) -> tuple[str, ...]:
    by_partition: dict[int, list[int]] = {}
    for one in events.get("first") or ():
        by_partition.setdefault(int(one["partition"]), []).append(int(one["offset"]))
    lines = [
        f"{events.get('topic')} {partition}: {_some(sorted(offsets))}"
        for partition, offsets in sorted(by_partition.items())
    ]
    known, count = sum(map(len, by_partition.values())), int(events.get("count") or 0)
    return (*lines, f"and {count - known:,} more events") if lines and count > known else tuple(lines)


def _of_batch(commit: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        f"{topic} {partition}: {since} to {until - 1} (its batch)"
        for topic, partitions in (commit.get("offsets") or {}).items()
        for partition, (since, until) in partitions.items()
    )


def _brought(commit: Mapping[str, Any]) -> str:
    version, batch = commit.get("version"), commit.get("batch_id")
    if version is not None and batch is not None:
        lost = "" if commit.get("offsets") is not None else "; what it read of Kafka is no longer on record"
        return f"version {version}, batch {batch}{lost}"
    says = str(commit.get("says") or "by a commit that says nothing of itself")
    return says if version is None else f"version {version}: {says}"


def _some(offsets: Sequence[int]) -> str:
    shown = ", ".join(str(offset) for offset in offsets[:_MOST_OFFSETS])
    return f"{shown}, …" if len(offsets) > _MOST_OFFSETS else shown


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _document(text: object) -> dict[str, Any]:
    try:
        document = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {}
