"""Lists and reads the state stores of a checkpoint, of any operator and either checkpoint format.

Spark's ``state-metadata`` source lists operators, stores and variables; its ``statestore`` source reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.driver.failure import explain
from stateward.runtime.keyed.state_log import HEAD_NAME, LOG_NAME
from stateward.runtime.session import start_coordinator
from stateward.state.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYED_OPERATORS = (
    "transformWithStateExec",
    "transformWithStateInPandasExec",
    "transformWithStateInPySparkExec",
)
"""Operators whose state has variables."""

SESSION_WINDOW = "sessionWindowStateStoreSaveExec"
"""The operator of a session window."""

LIST, TIMER = "ListState", "TimerState"

_FORMAT_CONF = "spark.sql.streaming.stateStore.checkpointFormatVersion"


class StateReadError(StateError):
    """State could not be read from a checkpoint."""


@dataclass(frozen=True, order=True)
class StateVariable:
    """A state variable as declared by its processor.

    Attributes:
        name: Its name; Spark's internal ones for timers start with a dollar sign.
        kind: ``ValueState``, ``ListState``, ``MapState`` or ``TimerState``.
    """

    name: str
    kind: str


@dataclass(frozen=True, order=True)
class Store:
    """One state store of a checkpoint.

    Attributes:
        operator_id: Spark's number of the operator in the query.
        operator: Spark's name of the operator.
        name: ``default``, or one of the four stores of a join.
        partitions: Number of partitions.
        declared: Its state variables; empty if the operator has none.
    """

    operator_id: int
    operator: str
    name: str
    partitions: int
    declared: tuple[StateVariable, ...] = ()

    @property
    def has_variables(self) -> bool:
        """Whether it has state variables, each read separately."""
        return self.operator in KEYED_OPERATORS

    @property
    def is_keyed(self) -> bool:
        """Whether it has the log of a keyed stream's buckets."""
        names = {variable.name for variable in self.declared}
        return self.has_variables and {LOG_NAME, HEAD_NAME} <= names

    @property
    def options(self) -> dict[str, str]:
        """The options that select it in the ``statestore`` source."""
        return {"operatorId": str(self.operator_id), "storeName": self.name}


def stores(spark: SparkSession, checkpoint_uri: str) -> tuple[Store, ...]:
    """List the state stores of a checkpoint; empty if its query keeps no state.

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
            f"found none of {', '.join(map(str, sorted(unnamed)))}; restore an intact savepoint"
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
    """Load one store with Spark's source; use the result while the state is `readable`.

    Args:
        spark: A session.
        checkpoint_uri: The checkpoint.
        store: The store.
        variable: The variable, if the store has variables.
        timers: Whether to read its timers instead of a variable.
        batch_id: A retained batch, or None for the newest.
        options: Further options of the source.
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
    """Let the session read a checkpoint of any format; raises Spark's errors as `StateReadError`."""
    unreadable = f"the state in {checkpoint_uri} cannot be read"
    with spark_errors_as(StateReadError, unreadable), checkpoint_format(spark, checkpoint_uri):
        yield


@contextmanager
def checkpoint_format(spark: SparkSession, checkpoint_uri: str) -> Iterator[None]:
    """Set the session's checkpoint format, which Spark does not read from the checkpoint."""
    start_coordinator(spark)
    with settings(spark, {_FORMAT_CONF: str(format_version(checkpoint_uri))}):
        yield


@contextmanager
def settings(spark: SparkSession, changes: Mapping[str, str]) -> Iterator[None]:
    """Let the session have other settings."""
    before = {name: spark.conf.get(name, None) for name in changes}
    for name, value in changes.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)


@contextmanager
def spark_errors_as(kind: Callable[[str], Exception], what: str) -> Iterator[None]:
    """Raise an error of Spark's as ``kind``, with its cause in one line."""
    try:
        yield
    except Exception as error:
        if not is_spark_error(error):
            raise
        raise kind(f"{what}: {explain(error)}") from error


def is_spark_error(error: Exception) -> bool:
    """Whether Spark raised the error; some are Py4JJavaError, which is not PySpark's."""
    return type(error).__module__.startswith(("py4j", "pyspark"))


def format_version(checkpoint_uri: str) -> int:
    """The checkpoint format, 1 or 2; with 2 a commit lists the files of its state."""
    commit = storage.read_text(f"{checkpoint_uri}/commits/{Checkpoint(checkpoint_uri).last_committed()}")
    return 2 if commit is not None and commit.startswith("v2") else 1


def _declared(properties: str | None) -> tuple[StateVariable, ...]:
    found = json.loads(properties).get("stateVariables", []) if properties else []
    return tuple(StateVariable(str(one["stateName"]), str(one["stateVariableType"])) for one in found)
