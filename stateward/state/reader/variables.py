"""What is in a checkpoint's state, and every entry of it as text: keys, values, timers, of any operator.

The text of an entry depends on nothing but its key and value, so states can be compared whatever their
partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.state.reader.stores import KEYED_OPERATORS, LIST, TIMER, Store, load, stores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TIMERS = "timers"
"""Name under which the timers of an operator go."""

_JOIN = "symmetricHashJoin"
# With whether their keys end with the number of a row; later formats of joins have other stores.
_JOIN_STORES = {
    f"{side}-{store}": store == "keyWithIndexToValue"
    for side in ("left", "right")
    for store in ("keyToNumValues", "keyWithIndexToValue")
}
_SESSION_WINDOW = "sessionWindowStateStoreSaveExec"
# By their whole key Spark finds the state of these.
_BY_WHOLE_KEY = (
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState",
)
# Spark's default format drops microseconds, and a null field, so that two values would look like one.
_TEXT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}


@dataclass(frozen=True, order=True)
class Variable:
    """A part of the state that is read by itself.

    Attributes:
        store: What it is in.
        name: The state variable, `TIMERS`, or nothing for an operator that has no variables.
        kind: ``ValueState``, ``ListState``, ``MapState``, ``TimerState``, or nothing.
    """

    store: Store
    name: str = ""
    kind: str = ""

    def __str__(self) -> str:
        part = self.name or (self.store.name if self.store.name != "default" else "")
        return f"operator {self.store.operator_id} ({self.store.operator})" + (f", {part}" if part else "")


def variables(spark: SparkSession, checkpoint_uri: str) -> list[Variable]:
    """All parts of the state of a checkpoint; none if its query keeps no state.

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
    """Whether it is known here by what Spark partitions the state of an operator."""
    if store.operator == _JOIN:
        return store.name in _JOIN_STORES
    return store.operator in (*KEYED_OPERATORS, *_BY_WHOLE_KEY, _SESSION_WINDOW)


def entries(
    spark: SparkSession, checkpoint_uri: str, found: list[Variable], batch_id: int | None = None
) -> DataFrame:
    """Every entry of some variables.

    Args:
        spark: A session; it need not have run a stream.
        checkpoint_uri: The checkpoint.
        found: Which variables, at least one.
        batch_id: A retained batch, or None for the newest.

    Returns:
        ``variable string, key string, value string, partition int, hash int``: a row per entry. Key and value
        are JSON; of a timer the key is all there is. ``hash`` is the one of Spark's shuffle: a key belongs to
        partition ``pmod(hash, n)`` of n. It is null where it is not known how the operator is partitioned.
    """
    parts = [_entries_of(spark, checkpoint_uri, variable, batch_id) for variable in found]
    return reduce(lambda one, other: one.unionAll(other), parts)


def _entries_of(
    spark: SparkSession, checkpoint_uri: str, variable: Variable, batch_id: int | None
) -> DataFrame:
    # In a list the order counts, so it is one value; a map's entries are each their own.
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
    """The hash of what the operator's input is partitioned by."""
    fields = rows.select("key.*").columns
    # After what the input is grouped by comes the number of a row of its key, or when a session began.
    if _JOIN_STORES.get(store.name) or store.operator == _SESSION_WINDOW:
        fields = fields[:-1]
    # What is grouped by nothing is all in one partition, whatever their number.
    if not is_movable(store) or not fields:
        return F.lit(None).cast("int")
    return F.hash(*(F.col("key").getField(name) for name in fields))
