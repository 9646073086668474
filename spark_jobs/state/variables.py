"""What is in a checkpoint's state, and every entry of it as text: keys, values, timers, of any operator.

Spark's ``state-metadata`` source names operators and stores, its ``statestore`` source reads them. The text
of an entry depends on nothing but its key and value, so states can be compared whatever their partitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_jobs.runtime import storage
from spark_jobs.runtime.checkpoint import Checkpoint
from spark_jobs.runtime.failure import explain
from spark_jobs.state.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TIMERS = "timers"
"""Name under which the timers of an operator go."""

_FORMAT_CONF = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_KEYED = (
    "transformWithStateExec",
    "transformWithStateInPandasExec",
    "transformWithStateInPySparkExec",
)
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


class StateReadError(StateError):
    """State could not be read from a checkpoint."""


@dataclass(frozen=True, order=True)
class Variable:
    """A part of the state that is read by itself.

    Attributes:
        operator_id: Number of the operator in the query.
        operator: Spark's name of it.
        store: Name of its state store.
        name: The state variable, `TIMERS`, or nothing for an operator that has no variables.
        kind: ``ValueState``, ``ListState``, ``MapState``, or nothing.
    """

    operator_id: int
    operator: str
    store: str
    name: str = ""
    kind: str = ""

    def __str__(self) -> str:
        part = self.name or (self.store if self.store != "default" else "")
        return f"operator {self.operator_id} ({self.operator})" + (f", {part}" if part else "")


def variables(spark: SparkSession, checkpoint_uri: str) -> list[Variable]:
    """All parts of the state of a checkpoint; none if its query keeps no state.

    Raises:
        StateReadError: The state's metadata cannot be read.
    """
    operators = {int(name) for name in storage.list_names(f"{checkpoint_uri}/state") if name.isdigit()}
    if not operators:
        return []
    with readable(spark, checkpoint_uri):
        rows = spark.read.format("state-metadata").load(checkpoint_uri).collect()
    if unnamed := operators - {row["operatorId"] for row in rows}:
        raise StateReadError(
            f"the state in {checkpoint_uri} cannot be read: expected metadata of {len(operators)} operators, "
            f"found none of {', '.join(map(str, sorted(unnamed)))}; restore a savepoint that is whole"
        )
    found: list[Variable] = []
    for row in rows:
        operator = (row["operatorId"], row["operatorName"], row["stateStoreName"])
        if row["operatorName"] not in _KEYED:
            found.append(Variable(*operator))
            continue
        declared = json.loads(row["operatorProperties"])["stateVariables"]
        for variable in declared:
            kind = variable["stateVariableType"]
            if kind == "TimerState":
                found.append(Variable(*operator, TIMERS, kind))
            elif not variable["stateName"].startswith("$"):
                found.append(Variable(*operator, variable["stateName"], kind))
    return sorted(set(found))


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


@contextmanager
def readable(spark: SparkSession, checkpoint_uri: str) -> Iterator[None]:
    """Let the session read a checkpoint of any format; an error of Spark's becomes a `StateReadError`."""
    unreadable = f"the state in {checkpoint_uri} cannot be read"
    with in_words(StateReadError, unreadable), format_of(spark, checkpoint_uri):
        yield


@contextmanager
def format_of(spark: SparkSession, checkpoint_uri: str) -> Iterator[None]:
    """Give the session the format of a checkpoint, which Spark does not take from the checkpoint itself."""
    # In a session that has run no stream the state store's coordinator does not exist until it is asked for.
    _ = spark.streams.active
    before = spark.conf.get(_FORMAT_CONF, None)
    spark.conf.set(_FORMAT_CONF, str(format_version(checkpoint_uri)))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_FORMAT_CONF)
        else:
            spark.conf.set(_FORMAT_CONF, before)


@contextmanager
def in_words(kind: type[Exception], what: str) -> Iterator[None]:
    """Say an error of Spark's as one of ours, its cause in one line."""
    try:
        yield
    except Exception as error:
        # Of what Spark throws some comes as Py4JJavaError, which is no error of PySpark's.
        if not type(error).__module__.startswith(("py4j", "pyspark")):
            raise
        raise kind(f"{what}: {explain(error)}") from error


def format_version(checkpoint_uri: str) -> int:
    """The format of a checkpoint's state, 1 or 2; with 2 a commit names the files of its state."""
    commit = storage.read_text(f"{checkpoint_uri}/commits/{Checkpoint(checkpoint_uri).last_committed()}")
    return 2 if commit is not None and commit.startswith("v2") else 1


def _entries_of(
    spark: SparkSession, checkpoint_uri: str, variable: Variable, batch_id: int | None
) -> DataFrame:
    reader = spark.read.format("statestore").option("operatorId", variable.operator_id)
    if variable.name == TIMERS:
        reader = reader.option("readRegisteredTimers", True)
    elif variable.name:
        # In a list the order counts, so it is one value; a map's entries are each their own.
        is_list = variable.kind == "ListState"
        reader = reader.option("stateVarName", variable.name).option("flattenCollectionTypes", not is_list)
    else:
        reader = reader.option("storeName", variable.store)
    if batch_id is not None:
        reader = reader.option("batchId", batch_id)
    rows = reader.load(checkpoint_uri)
    keys = [name for name in ("key", "user_map_key", "expiration_timestamp_ms") if name in rows.columns]
    values = [name for name in rows.columns if name not in (*keys, "partition_id")]
    return rows.select(
        F.lit(str(variable)).alias("variable"),
        _text(keys).alias("key"),
        _text(values).alias("value"),
        F.col("partition_id").alias("partition"),
        _hash(rows, variable).alias("hash"),
    )


def _text(columns: Sequence[str]) -> Column:
    return F.to_json(F.struct(*columns), _TEXT) if columns else F.lit("")


def _hash(rows: DataFrame, variable: Variable) -> Column:
    """The hash of what the operator's input is partitioned by."""
    is_join = variable.operator == _JOIN and variable.store in _JOIN_STORES
    if not is_join and variable.operator not in (*_KEYED, *_BY_WHOLE_KEY, _SESSION_WINDOW):
        return F.lit(None).cast("int")
    fields = rows.select("key.*").columns
    # After what the input is grouped by comes the number of a row of its key, or when a session began.
    if (is_join and _JOIN_STORES[variable.store]) or variable.operator == _SESSION_WINDOW:
        fields = fields[:-1]
    return F.hash(*(F.col("key").getField(name) for name in fields))
