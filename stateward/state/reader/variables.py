"""Lists the variables of a checkpoint's state and reads their entries as text, for any operator.

The text of an entry depends only on its key and value, so states with different partitions are comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.state.reader.stores import KEYED_OPERATORS, LIST, SESSION_WINDOW, TIMER, Store, load, stores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TIMERS = "timers"
"""Name of an operator's timers."""

_JOIN = "symmetricHashJoin"
# With whether their keys end with a row number. Later formats of joins have other stores.
_JOIN_STORES = {
    f"{side}-{store}": store == "keyWithIndexToValue"
    for side in ("left", "right")
    for store in ("keyToNumValues", "keyWithIndexToValue")
}
# Spark partitions the state of these by the whole key.
_BY_WHOLE_KEY = (
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState",
)
# Spark's default format drops microseconds and null fields, so different values would have the same text.
_TEXT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}


@dataclass(frozen=True, order=True)
class Variable:
    """A part of the state that is read separately.

    Attributes:
        store: Its store.
        name: The state variable or `TIMERS`; empty if the operator has no variables.
        kind: ``ValueState``, ``ListState``, ``MapState``, ``TimerState``, or empty.
    """

    store: Store
    name: str = ""
    kind: str = ""

    def __str__(self) -> str:
        part = self.name or (self.store.name if self.store.name != "default" else "")
        return f"operator {self.store.operator_id} ({self.store.operator})" + (f", {part}" if part else "")


def variables(spark: SparkSession, checkpoint_uri: str) -> list[Variable]:
    """List the variables of a checkpoint's state; empty if its query keeps no state.

    Raises:
        StateReadError: The state's metadata cannot be read.
    """
    found: set[Variable] = set()
    for store in stores(spark, checkpoint_uri):
        if not store.has_variables:
            found.add(Variable(store))
        for declared in store.declared:
            if declared.kind == TIMER:
                found.add(Variable(store, TIMERS, TIMER))
            elif not declared.name.startswith("$"):
                found.add(Variable(store, declared.name, declared.kind))
    return sorted(found)


def is_movable(store: Store) -> bool:
    """Whether the partitioning of the operator's state is known."""
    if store.operator == _JOIN:
        return store.name in _JOIN_STORES
    return store.operator in (*KEYED_OPERATORS, *_BY_WHOLE_KEY, SESSION_WINDOW)


def entries(
    spark: SparkSession, checkpoint_uri: str, found: list[Variable], batch_id: int | None = None
) -> DataFrame:
    """Read the entries of some variables.

    Args:
        spark: A session.
        checkpoint_uri: The checkpoint.
        found: The variables, at least one.
        batch_id: A retained batch, or None for the newest.

    Returns:
        ``variable string, key string, value string, partition int, hash int``: a row per entry. Key and value
        are JSON; a timer has only a key. ``hash`` is that of Spark's shuffle: a key belongs in partition
        ``pmod(hash, n)`` of n. It is null if the partitioning of the operator is unknown.
    """
    parts = [_entries_of(spark, checkpoint_uri, variable, batch_id) for variable in found]
    return reduce(lambda one, other: one.unionAll(other), parts)


def _entries_of(
    spark: SparkSession, checkpoint_uri: str, variable: Variable, batch_id: int | None
) -> DataFrame:
    # The order of a list matters, so it is one value; the entries of a map are separate.
    flat = {"flattenCollectionTypes": str(variable.kind != LIST).lower()}
    is_timer = variable.kind == TIMER
    rows = load(
        spark,
        checkpoint_uri,
        variable.store,
        variable=None if is_timer else variable.name or None,
        timers=is_timer,
        batch_id=batch_id,
        options=flat if variable.name and not is_timer else None,
    )
    keys = [name for name in ("key", "user_map_key", "expiration_timestamp_ms") if name in rows.columns]
    values = [name for name in rows.columns if name not in (*keys, "partition_id")]
    return rows.select(
        F.lit(str(variable)).alias("variable"),
        _text(keys).alias("key"),
        _text(values).alias("value"),
        F.col("partition_id").alias("partition"),
        _hash(rows, variable.store).alias("hash"),
    )


def _text(columns: Sequence[str]) -> Column:
    return F.to_json(F.struct(*columns), _TEXT) if columns else F.lit("")


def _hash(rows: DataFrame, store: Store) -> Column:
    """The hash by which the operator's input is partitioned."""
    fields = rows.select("key.*").columns
    # The last field of the key is the number of a row, or the start of a session.
    if _JOIN_STORES.get(store.name) or store.operator == SESSION_WINDOW:
        fields = fields[:-1]
    # Without grouping everything is in one partition.
    if not is_movable(store) or not fields:
        return F.lit(None).cast("int")
    return F.hash(*(F.col("key").getField(name) for name in fields))
