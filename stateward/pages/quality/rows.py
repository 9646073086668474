"""Rows of `quarantine` as pages show them: masked values, and their offsets in Kafka. Pure.

Personal columns are masked before a row is stored; they cannot be masked here, because the declarations are
on the lower floor. So all rows on pages pass through this module, which reads only the masked row and its
offsets: neither the row's hash nor ids of events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN = 10
"""Rows shown per failure."""

_LONGEST = 160
_MOST_OFFSETS = 5


@dataclass(frozen=True)
class Example:
    """A row that fails an expectation.

    Attributes:
        values: By column, as text; None for a null. Empty for a finding about a whole table.
        offsets: Offsets of its events in Kafka, or of the batch that wrote it, such as
            `user_events 0: 1042, 1057`.
        brought: The commit that wrote it, such as `version 17, batch 231`.
        is_hidden: Whether values are hidden, because an earlier release masked fewer columns.
    """

    values: Mapping[str, str | None]
    offsets: tuple[str, ...] = ()
    brought: tuple[str, ...] = ()
    is_hidden: bool = False


@dataclass(frozen=True)
class Examples:
    """Rows with the same columns, for a table on a page."""

    columns: tuple[str, ...]
    rows: tuple[Example, ...]


def examples_of(entries: Iterable[Mapping[str, Any]]) -> Examples:
    """Read rows of `quarantine`, up to ten per failure."""
    rows = [_example(entry) for entry in entries]
    rows.sort(key=lambda one: json.dumps(dict(one.values), sort_keys=True))
    columns = dict.fromkeys(name for row in rows for name in row.values)
    return Examples(tuple(columns), tuple(rows[:SHOWN]))


def _example(entry: Mapping[str, Any]) -> Example:
    row, origin = _document(entry.get("row")), _document(entry.get("origin"))
    # The column was added with the masks of values derived from personal columns.
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
    by_partition: dict[tuple[str, int], list[int]] = {}
    for one in events.get("first") or ():
        # An event of a stream that reads several topics names its own.
        place = str(one.get("topic", events.get("topic"))), int(one["partition"])
        by_partition.setdefault(place, []).append(int(one["offset"]))
    lines = [
        f"{topic} {partition}: {_some(sorted(offsets))}"
        for (topic, partition), offsets in sorted(by_partition.items())
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
