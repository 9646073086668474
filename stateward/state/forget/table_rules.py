"""Which rows of each table are a key's, and how each is removed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from stateward.contract import names
from stateward.state.forget.delta_rows import Row, Rule
from stateward.state.forget.subject import Subject

if TYPE_CHECKING:
    from stateward.runtime.api.tables import Table

_PLACE = ("topic", "partition", "offset")
COUNTED = {names.DEAD_LETTERS: "dead", names.LATE_EVENTS: "late"}
"""Tables that streams share, and the column of `batch_counts` that counts their rows."""


def rule_of(
    table: str, subject: Subject, stream: str, topics: Collection[str], until: Mapping[str, Mapping[int, int]]
) -> Rule | None:
    """Return the rule of a table of the platform; None for one that holds no key.

    Args:
        table: Its name.
        subject: The key.
        stream: The stream that forgets it.
        topics: Its data topics.
        until: The end of each partition of them when the key was forgotten; empty for no end.
    """

    def is_old(row: Row) -> bool:
        end = until.get(row["topic"], {}).get(row["partition"])
        return row["topic"] in topics and (end is None or row["offset"] is None or row["offset"] < end)

    def is_record(row: Row) -> bool:
        return is_old(row) and subject.is_in_record(row["key"], row["value"])

    def is_late(row: Row) -> bool:
        if not is_old(row):
            return False
        mine = row["stream"] == stream and row["key"] == subject.key
        return mine or subject.is_in_record(None, row["value"])

    def is_exported(row: Row) -> bool:
        return row["stream"] == stream and (row["key"] == subject.key or subject.is_in_json(row["key"]))

    def is_held_back(row: Row) -> bool:
        return row["stream"] == stream and subject.is_in_text(row["row"])

    def is_sampled(row: Row) -> bool:
        return row["stream"] == stream and subject.is_in_text(row["failing_rows_sample"])

    shared = ("stream", *_PLACE)
    rules = {
        names.RAW_EVENTS: Rule(
            (*_PLACE, "key", "value"), is_record, ("topic", "date", *_PLACE[1:]), (("topic", tuple(topics)),)
        ),
        names.DEAD_LETTERS: Rule((*_PLACE, "key", "value"), is_record, shared),
        names.LATE_EVENTS: Rule(("stream", *_PLACE, "key", "value"), is_late, shared),
        names.STATE_EXPORTS: Rule(
            ("stream", "key"),
            is_exported,
            ("stream", "generation", "batch_id", "operator_id", "store", "partition", "key"),
            (("stream", (stream,)),),
        ),
        names.QUARANTINE: Rule(
            ("stream", "row"),
            is_held_back,
            ("stream", "table", "run_id", "name", "row_hash"),
            (("stream", (stream,)),),
        ),
        names.QUALITY_RESULTS: Rule(
            ("stream", "failing_rows_sample"),
            is_sampled,
            ("stream", "table", "run_id", "name"),
            blank="failing_rows_sample",
        ),
    }
    return rules.get(table)


def own_rule(table: Table, subject: Subject) -> Rule | None:
    """Return the rule of one of the stream's own tables: by the column of its key, else by personal texts.

    None for a table that has neither.
    """
    columns = tuple(one.name for one in table.columns if one.name == subject.field) or tuple(
        one.name for one in table.columns if one.name in table.personal and one.type == "string"
    )
    if not columns:
        return None

    def is_hit(row: Row) -> bool:
        return any(row[name] == subject.key for name in columns)

    return Rule(columns, is_hit, columns if len(columns) == 1 else (table.columns[0].name,))
