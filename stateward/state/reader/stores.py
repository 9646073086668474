"""The state stores of a checkpoint, and reading them: of any operator, and of either format of a checkpoint.

Spark's ``state-metadata`` source names operators, stores and variables; its ``statestore`` source reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.driver.failure import explain
from stateward.runtime.driver.session import start_coordinator
from stateward.runtime.keyed.state_log import HEAD_NAME, LOG_NAME
from stateward.state.operation.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYED_OPERATORS = (
    "transformWithStateExec",
    "transformWithStateInPandasExec",
    "transformWithStateInPySparkExec",
)
"""Operators whose state has variables."""

LIST, TIMER = "ListState", "TimerState"

_FORMAT_CONF = "spark.sql.streaming.stateStore.checkpointFormatVersion"


class StateReadError(StateError):
    """State could not be read from a checkpoint."""


@dataclass(frozen=True, order=True)
class Declared:
    """A state variable as its processor has declared it.

    Attributes:
        name: Its name; Spark's own for timers begins with a dollar sign.
        kind: ``ValueState``, ``ListState``, ``MapState`` or ``TimerState``.
    """

    name: str
    kind: str


@dataclass(frozen=True, order=True)
class Store:
    """One state store of a checkpoint.

    Attributes:
        operator_id: Spark's number of the operator in the query.
        operator: Spark's name of it.
        name: ``default``, or one of the four stores of a join.
        partitions: How many partitions it has.
        declared: Its state variables; none of an operator that has no variables.
    """

    operator_id: int
    operator: str
    name: str
    partitions: int
    declared: tuple[Declared, ...] = ()

    @property
    def has_variables(self) -> bool:
        """Whether it is read variable by variable."""
        return self.operator in KEYED_OPERATORS

    @property
    def is_keyed(self) -> bool:
        """Whether it holds the log of buckets of a keyed stream."""
        names = {variable.name for variable in self.declared}
        return self.has_variables and {LOG_NAME, HEAD_NAME} <= names

    @property
    def options(self) -> dict[str, str]:
        """What tells it from the other stores, for the ``statestore`` source."""
        return {"operatorId": str(self.operator_id), "storeName": self.name}


def stores(spark: SparkSession, checkpoint_uri: str) -> tuple[Store, ...]:
    """All state stores of a checkpoint; none if its query keeps no state.

    Raises:
        StateReadError: The state's metadata cannot be read.
    """
    operators = {int(name) for name in storage.list_names(f"{checkpoint_uri}/state") if name.isdigit()}
    if not operators:
        return ()
    with readable(spark, checkpoint_uri):
        rows = spark.read.format("state-metadata").load(checkpoint_uri).collect()
    if unnamed := operators - {row["operatorId"] for row in rows}:
        raise StateReadError(
            f"the state in {checkpoint_uri} cannot be read: expected metadata of {len(operators)} operators, "
            f"found none of {', '.join(map(str, sorted(unnamed)))}; restore a savepoint that is whole"
        )
    found = (
        Store(
            int(row["operatorId"]),
            str(row["operatorName"]),
            str(row["stateStoreName"]),
            int(row["numPartitions"]),
            _declared(row["operatorProperties"]),
        )
        for row in rows
    )
    return tuple(sorted(found))


def load(
    spark: SparkSession,
    checkpoint_uri: str,
    store: Store,
    *,
    variable: str | None = None,
    timers: bool = False,
    batch_id: int | None = None,
    options: dict[str, str] | None = None,
) -> DataFrame:
    """One store as Spark's source gives it; to be used while the state is `readable`.

    Args:
        spark: A session; it need not have run a stream.
        checkpoint_uri: The checkpoint.
        store: The store.
        variable: Which variable, of a store that has some.
        timers: Whether to read its timers in place of a variable.
        batch_id: A retained batch, or None for the newest.
        options: More for the source.
    """
    chosen = {**store.options, **(options or {})}
    if variable is not None:
        chosen["stateVarName"] = variable
    if timers:
        chosen["readRegisteredTimers"] = "true"
    if batch_id is not None:
        chosen["batchId"] = str(batch_id)
    return spark.read.format("statestore").options(**chosen).load(checkpoint_uri)


@contextmanager
def readable(spark: SparkSession, checkpoint_uri: str) -> Iterator[None]:
    """Let the session read a checkpoint of any format; an error of Spark's becomes a `StateReadError`."""
    unreadable = f"the state in {checkpoint_uri} cannot be read"
    with in_words(StateReadError, unreadable), format_of(spark, checkpoint_uri):
        yield


@contextmanager
def format_of(spark: SparkSession, checkpoint_uri: str) -> Iterator[None]:
    """Give the session the format of a checkpoint, which Spark does not take from the checkpoint itself."""
    start_coordinator(spark)
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
def in_words(kind: Callable[[str], Exception], what: str) -> Iterator[None]:
    """Say an error of Spark's as one of ours, its cause in one line."""
    try:
        yield
    except Exception as error:
        if not is_of_spark(error):
            raise
        raise kind(f"{what}: {explain(error)}") from error


def is_of_spark(error: Exception) -> bool:
    """Whether Spark has raised it: some comes as Py4JJavaError, which is no error of PySpark's."""
    return type(error).__module__.startswith(("py4j", "pyspark"))


def format_version(checkpoint_uri: str) -> int:
    """The format of a checkpoint's state, 1 or 2; with 2 a commit names the files of its state."""
    commit = storage.read_text(f"{checkpoint_uri}/commits/{Checkpoint(checkpoint_uri).last_committed()}")
    return 2 if commit is not None and commit.startswith("v2") else 1


def _declared(properties: str | None) -> tuple[Declared, ...]:
    found = json.loads(properties).get("stateVariables", []) if properties else []
    return tuple(Declared(str(one["stateName"]), str(one["stateVariableType"])) for one in found)
