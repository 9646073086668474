"""Removes old rows from tables that hold raw records, by the day, so that a table changes once a day.

`raw_events` loses partitions of dates. `dead_letters` and `late_events` lose whole batches, so that what
`batch_counts` counts of every other batch stays true. `quarantine` keeps its rows, without which bad rows
would be visible again; their contents are emptied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable

from stateward.contract.names import BATCH_COUNTS, DEAD_LETTERS, LATE_EVENTS, QUARANTINE, RAW_EVENTS
from stateward.contract.privacy.forgotten import EXPIRED, MARK
from stateward.maintenance.steps import giving_way

_EMPTY = "{}"
_NOTHING = "none"


@giving_way
def expire(table: str, uri: str, *, max_age: timedelta, now: datetime, dry_run: bool) -> str:
    """Remove the rows of a table that are older than an age; returns what was done.

    Args:
        table: Its name, one of `policy.AGED`.
        uri: The table.
        max_age: The age, by the day (UTC).
        now: The time, aware.
        dry_run: Whether only to say what would be done.
    """
    before = (now - max_age).replace(hour=0, minute=0, second=0, microsecond=0)
    return _BY_TABLE[table](uri, before, dry_run)


def _dates(uri: str, before: datetime, dry_run: bool) -> str:
    table = DeltaTable(uri)
    old = sorted(day for day in _days(table) if day < before.date())
    if not old:
        return _NOTHING
    if not dry_run:
        table.delete(f"date < '{before.date().isoformat()}'", commit_properties=_marked())
        os.sync()
    return f"{len(old)} days, up to {old[-1].isoformat()}"


def _days(table: DeltaTable) -> set[date]:
    """The dates of a table's partitions."""
    actions = pa.table(table.get_add_actions())
    partitions = actions.column("partition").to_pylist() if actions.num_rows else []
    return {one["date"] for one in partitions if one["date"] is not None}


def _batches(uri: str, before: datetime, dry_run: bool) -> str:
    table = DeltaTable(uri)
    last = _last_batches(f"{uri.rstrip('/').rpartition('/')[0]}/{BATCH_COUNTS}", before)
    there = table.to_pyarrow_dataset().to_table(columns=["stream", "generation", "batch_id"])
    rows = zip(*(there[name].to_pylist() for name in there.column_names), strict=True)
    places = [(stream, generation, batch) for stream, generation, batch in rows if batch is not None]
    old = [one for one in places if one[2] <= last.get(one[:2], -1)]
    if not old:
        return _NOTHING
    if not dry_run:
        table.delete(_older_than(last, {one[:2] for one in old}), commit_properties=_marked())
        os.sync()
    return f"{len(old)} rows"


def _last_batches(uri: str, before: datetime) -> dict[tuple[str, str], int]:
    """The last batch of each query of a stream that was committed before a time."""
    if not DeltaTable.is_deltatable(uri):
        return {}
    counts = DeltaTable(uri).to_pyarrow_dataset()
    rows = counts.to_table(
        columns=["stream", "generation", "batch_id"], filter=pc.field("committed_at") < pa.scalar(before)
    )
    newest = rows.group_by(["stream", "generation"]).aggregate([("batch_id", "max")])
    columns = (newest[name].to_pylist() for name in ("stream", "generation", "batch_id_max"))
    return {(stream, generation): batch for stream, generation, batch in zip(*columns, strict=True)}


def _older_than(last: dict[tuple[str, str], int], places: set[tuple[str, str]]) -> str:
    def conditions() -> Iterator[str]:
        for stream, generation in sorted(places):
            batch = last[stream, generation]
            yield f"(stream = {_text(stream)} AND generation = {_text(generation)} AND batch_id <= {batch})"

    return " OR ".join(conditions())


def _contents(uri: str, before: datetime, dry_run: bool) -> str:
    table = DeltaTable(uri)
    is_old = pc.field("quarantined_at") < pa.scalar(before)
    rows = table.to_pyarrow_dataset().to_table(columns=["row"], filter=is_old)["row"].to_pylist()
    count = sum(row is not None and row != _EMPTY for row in rows)
    if not count:
        return _NOTHING
    if not dry_run:
        table.update(
            updates={"row": _text(_EMPTY), "origin": "NULL"},
            predicate=f"quarantined_at < {_instant(before)} AND row <> '{_EMPTY}'",
            commit_properties=_marked(),
        )
        os.sync()
    return f"contents of {count} rows"


def _marked() -> CommitProperties:
    return CommitProperties(custom_metadata={MARK: EXPIRED})


def _instant(value: datetime) -> str:
    return f"arrow_cast({_text(value.isoformat())}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_BY_TABLE: dict[str, Callable[[str, datetime, bool], str]] = {
    RAW_EVENTS: _dates,
    DEAD_LETTERS: _batches,
    LATE_EVENTS: _batches,
    QUARANTINE: _contents,
}
