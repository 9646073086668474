"""Removes rows from a Delta table without naming them in its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.schema import Schema

from stateward.contract.storage import sync_disks
from stateward.runtime.delta.commit_retry import commit_with_retry

# Other streams go on writing to the tables that they share with this one.
_MOST_TRIES = 20
_ROWS_AT_ONCE = 8192

Row = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """Which rows of a table are the key's.

    Attributes:
        columns: What has to be read to judge a row.
        is_hit: Judges it.
        identity: The columns by which a row is removed.
        partition: Values of partition columns outside of which there is no such row.
        blank: A column that is emptied in place of the removal of the row.
    """

    columns: tuple[str, ...]
    is_hit: Callable[[Row], bool]
    identity: tuple[str, ...]
    partition: tuple[tuple[str, tuple[str, ...]], ...] = ()
    blank: str = ""


def find(table: DeltaTable, rule: Rule, more: Sequence[str] = ()) -> list[Row]:
    """The rows of the current version that are the key's.

    Args:
        table: The table.
        rule: Which rows.
        more: Further columns that are wanted.
    """
    data = table.to_pyarrow_dataset()
    there = data.schema.names
    names = [name for name in dict.fromkeys((*rule.columns, *rule.identity, *more)) if name in there]
    found: list[Row] = []
    for batch in data.to_batches(columns=names, filter=_within(rule), batch_size=_ROWS_AT_ONCE):
        found += [row for row in batch.to_pylist() if rule.is_hit(row)]
    return found


def _within(rule: Rule) -> pc.Expression | None:
    wanted = None
    for name, values in rule.partition:
        one = pc.field(name).isin(list(values))
        wanted = one if wanted is None else wanted & one
    return wanted


def remove(uri: str, rule: Rule, commit: Callable[[DeltaTable], CommitProperties]) -> int:
    """Remove the rows of a key; idempotent.

    The key is data of a join and no part of a predicate, which Delta would write into the log.

    Args:
        uri: The table.
        rule: Which rows.
        commit: Returns the properties of a commit on top of a version.

    Returns:
        How many rows were removed.
    """
    removed = 0

    def write() -> None:
        nonlocal removed
        table = DeltaTable(uri)
        found = find(table, rule)
        if not found:
            return
        source = _source(table, rule, found)
        same = " AND ".join(f"gone.`{name}` = kept.`{name}`" for name in rule.identity)
        merge = table.merge(
            source, same, source_alias="gone", target_alias="kept", commit_properties=commit(table)
        )
        merge = merge.when_matched_update({rule.blank: "NULL"}) if rule.blank else merge.when_matched_delete()
        merge.execute()
        sync_disks([uri])
        removed += len(found)

    commit_with_retry(uri, write, tries=_MOST_TRIES)
    return removed


def _source(table: DeltaTable, rule: Rule, found: Sequence[Row]) -> pa.Table:
    kinds = pa.schema(Schema.from_json(table.schema().to_json()))
    schema = pa.schema([(name, kinds.field(name).type) for name in rule.identity])
    distinct = {tuple(row[name] for name in rule.identity): None for row in found}
    return pa.Table.from_pylist(
        [dict(zip(rule.identity, one, strict=True)) for one in distinct], schema=schema
    )
