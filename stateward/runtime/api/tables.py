"""The Delta tables a stream writes: columns with comments, created up front.

Created through ``deltalake`` because that takes milliseconds where a Spark job takes seconds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.contract import names

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema
    from deltalake.schema import Field


_MASKABLE = ("string", "binary", "array<string>", "array<binary>")


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        name: Its name.
        type: A primitive type of Delta, or ``array<`` one ``>``.
        comment: What it means.
        personal: Whether its values tell of one person, and are masked wherever people look
            (docs/quality.md).
        derived_from: Columns of the table from which its values are computed, such as those behind an id. A
            hash of a personal value can be found by trying values out, so what is derived from a personal
            column is masked like it.

    Raises:
        ValueError: It is personal, and of a type that has no masked form.
    """

    name: str
    type: str
    comment: str
    personal: bool = False
    derived_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.personal and self.type not in _MASKABLE:
            raise ValueError(
                f"column {self.name}: expected a personal column to be one of {', '.join(_MASKABLE)}, found "
                f"{self.type}: only these have a masked form. Declare it as text."
            )

    @property
    def delta_type(self) -> str | dict[str, Any]:
        """The type as Delta's schema has it."""
        if not self.type.startswith("array<"):
            return self.type
        element = self.type.removeprefix("array<").removesuffix(">")
        return {"type": "array", "elementType": element, "containsNull": True}


@dataclass(frozen=True)
class Table:
    """A table's shape.

    Attributes:
        name: Name in the configuration's ``tables``.
        description: What one row is.
        columns: Its columns.
        partition_by: Partition columns.
        current_by: Columns by which the table has one current row; empty for a table that is appended to.
        came_at: The column with the event time at which a row came to be; empty if there is none.
        nullable: Columns in which readers are promised no value; a validation expects one in every other.

    Raises:
        ValueError: A column is derived from one that the table does not have; or from a personal one, and is
            of a type that has no masked form. Or a nullable column is not one of the table's.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    current_by: tuple[str, ...] = ()
    came_at: str = ""
    nullable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {column.name for column in self.columns}
        if unknown := sorted(set(self.nullable) - known):
            raise ValueError(
                f"table {self.name}: expected nullable to name columns of the table, found "
                f"{', '.join(unknown)}. Correct the name, or declare the column."
            )
        for column in self.columns:
            if unknown := sorted(set(column.derived_from) - known):
                raise ValueError(
                    f"table {self.name}: expected column {column.name} to be derived from columns of the "
                    f"table, found {', '.join(unknown)}. Name the columns from which it is computed."
                )
            if column.name in self.personal and column.type not in _MASKABLE:
                raise ValueError(
                    f"table {self.name}: expected column {column.name}, which is derived from a personal "
                    f"one, to be one of {', '.join(_MASKABLE)}, found {column.type}. Declare it as text."
                )

    @cached_property
    def personal(self) -> frozenset[str]:
        """The columns that people see masked: the personal ones, and what is derived from them."""
        found = {column.name for column in self.columns if column.personal}
        while more := {
            column.name
            for column in self.columns
            if column.name not in found and found.intersection(column.derived_from)
        }:
            found |= more
        return frozenset(found)

    def create(self, uri: str) -> None:
        """Create the table at ``uri``, or give one of an earlier release the columns it lacks."""
        # Not at the top: every Python worker imports this module, and none of them creates a table.
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        from stateward.runtime.delta.delta_tables import create_or_open

        table = create_or_open(
            uri,
            self.schema(),
            name=self.name,
            description=self.description,
            partition_by=self.partition_by,
        )
        try:
            if missing := self._missing_in(table):
                table.alter.add_columns(missing)
        except DeltaError:
            # Streams that start together share some tables, and one of them is the first.
            if self._missing_in(DeltaTable(uri)):
                raise

    def _missing_in(self, table: DeltaTable) -> list[Field]:
        there = {field.name for field in table.schema().fields}
        return [field for field in self.schema().fields if field.name not in there]

    def schema(self) -> Schema:
        """The Delta schema."""
        from deltalake import Schema

        fields = [
            {"name": c.name, "type": c.delta_type, "nullable": True, "metadata": {"comment": c.comment}}
            for c in self.columns
        ]
        return Schema.from_json(json.dumps({"type": "struct", "fields": fields}))

    def identity(self, key: str) -> tuple[str, ...]:
        """The columns by which two rows are the same one, whatever their other values.

        The first column, or, if that is the stream's key, the key and the time at which the row came to be.

        Args:
            key: Name of the field by which the stream is keyed.
        """
        if self.current_by:
            return self.current_by
        first = self.columns[0].name
        return (first, self.came_at) if first == key else (first,)

    @property
    def row_columns(self) -> tuple[Column, ...]:
        """The columns a row comes with: all but those by which the sink marks the rows of a shared table."""
        return tuple(column for column in self.columns if column not in _MARKS)


_STREAM = Column("stream", "string", "Stream that wrote the row")
_GENERATION = Column("generation", "string", "Id of the streaming query; a restored checkpoint is a new one")
_BATCH = Column("batch_id", "long", "Micro-batch that wrote the row")
_MARKS = (_STREAM, _GENERATION, _BATCH)
_RECORD = (
    Column("topic", "string", "Kafka topic"),
    Column("partition", "integer", "Kafka partition"),
    Column("offset", "long", "Kafka offset"),
    Column("record_timestamp", "timestamp", "Kafka's timestamp of the record"),
)

DEAD_LETTERS = Table(
    names.DEAD_LETTERS,
    "One record that could not be parsed or failed validation",
    (
        _STREAM,
        *_RECORD,
        Column("key", "binary", "Raw key of the record", personal=True),
        Column("value", "binary", "Raw value of the record", personal=True),
        Column("reason", "string", "Why: one of the reasons in docs/streams"),
        Column("detail", "string", "The field and what was found", personal=True),
        _GENERATION,
        _BATCH,
    ),
    ("stream",),
    nullable=("partition", "offset", "key", "value", "detail", "batch_id"),
)
LATE_EVENTS = Table(
    names.LATE_EVENTS,
    "One valid event that came after the watermark had passed it",
    (
        _STREAM,
        *_RECORD,
        Column("event_id", "string", "Id of the event"),
        Column("key", "string", "Key of the stream, such as the user", personal=True),
        Column("event_time", "timestamp", "Event time"),
        Column("watermark", "timestamp", "Watermark it came after"),
        Column("value", "binary", "Raw value of the record", personal=True),
        _GENERATION,
        _BATCH,
    ),
    ("stream",),
    nullable=("partition", "offset", "event_time", "watermark", "value", "batch_id"),
)
BATCH_COUNTS = Table(
    names.BATCH_COUNTS,
    "What one micro-batch did with the records that Kafka delivered",
    (
        _STREAM,
        _GENERATION,
        _BATCH,
        Column("epoch", "long", "Epoch of the lease under which it was written"),
        Column("run_id", "string", "Launch that wrote it"),
        Column("accepted", "long", "Events accepted"),
        Column("dead", "long", "Records sent to dead_letters"),
        Column("late", "long", "Events sent to late_events"),
        Column("duplicates", "long", "Events whose id was known"),
        Column("tick_records", "long", "End-of-replay ticks in the data topic"),
        Column("rows_out", "long", "Rows written to the stream's own tables"),
        Column("watermark", "timestamp", "Watermark of the batch"),
        Column("committed_at", "timestamp", "When it was written"),
        Column("held_full", "long", "Looks at a key that held more events than max_held_events"),
        Column("folded_early", "long", "Events folded before the watermark, for that"),
        Column("below_floor", "long", "Late events that are late for that alone"),
        Column("ids_full", "long", "Looks at a key with more ids to remember than max_held_events"),
        Column("ids_forgotten", "long", "Ids forgotten before their time, for that"),
        Column("others", "long", "Events whose key is another stream's, and records of forgotten keys"),
        # As text: rows with a map have no hash, and none could be found again by it.
        Column("rows_by_table", "string", "Rows written to each of the stream's own tables, as JSON"),
        Column("records", "long", "Records that Kafka delivered, whatever has become of them"),
        Column("times", "string", "How far the events of each partition had got, as JSON"),
        Column("lookups", "string", "Versions of lookups from this batch on, as JSON; null: as before"),
    ),
    ("stream",),
    nullable=(
        "batch_id",
        "accepted",
        "dead",
        "late",
        "duplicates",
        "tick_records",
        "rows_out",
        "watermark",
        "held_full",
        "folded_early",
        "below_floor",
        "ids_full",
        "ids_forgotten",
        "others",
        "rows_by_table",
        "records",
        "times",
        "lookups",
    ),
)
SHARED_TABLES = (DEAD_LETTERS, LATE_EVENTS, BATCH_COUNTS)


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of all the table's columns; timestamps in microseconds, UTC."""
    # Without the comments, which would go with every batch.
    return pa.schema([(field.name, field.type) for field in pa.schema(table.schema())])
