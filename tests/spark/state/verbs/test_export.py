"""`export`: the table has what the reader says of a batch, once, whichever batch and kind of stream."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError
from stateward.state.reader.native_variables import rows_as_text
from stateward.state.reader.retained_batches import Retained, retained
from stateward.state.reader.state_reader import keyed_rows, load, readable
from stateward.state.reader.stores import stores
from stateward.state.verbs.export import export
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import EVENT_WINDOWS, Launch
from tests.support.spark.running_query import running
from tests.support.state.inspected import START, at, config_of, looked_at, prepared, record, settled
from tests.support.state.operations import new_launch, operate
from tests.support.streams.payments import payments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Rows = dict[tuple[Any, ...], str]


def table_of(launch: Launch) -> str:
    return launch.uri("tables", "state_exports")


def exported(launch: Launch, batch: int) -> list[dict[str, Any]]:
    rows = DeltaTable(table_of(launch)).to_pyarrow_table().to_pylist()
    return [row for row in rows if row["batch_id"] == batch]


def by_place(rows: list[dict[str, Any]]) -> Rows:
    found = {(row["operator_id"], row["store"], row["partition"], row["key"]): row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


def as_read(spark: SparkSession, found: Retained) -> Rows:
    """The same by the reader that `inspect`, `explain` and `compare` use."""
    rows: Rows = {}
    with readable(spark, found):
        for store in stores(spark, found.uri):
            frame = (
                keyed_rows(spark, found, store).selectExpr(
                    "partition", "key", "CAST(state AS STRING) AS value"
                )
                if store.is_keyed
                else rows_as_text(store, load(spark, found, store))
            )
            for row in frame.collect():
                rows[store.operator_id, store.name, row["partition"], row["key"]] = row["value"]
    return rows


@ci_full
def test_a_keyed_state_is_exported_as_of_any_batch_and_once(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    sent = payments(seed=5, accounts=40).records
    launch = new_launch(tmp_path, broker, "export")
    with running(launch, spark, checkpoint_uri=launch.checkpoint) as query:
        for begin in range(0, len(sent), len(sent) // 3 + 1):
            launch.send(sent[begin : begin + len(sent) // 3 + 1])
            query.settle()
        query.drain()
    name, generation = launch.stream.name, Checkpoint(launch.checkpoint).query_id()
    newest = retained(launch.checkpoint, name)
    assert newest.last >= 3

    for batch in newest.batches:
        answer = operate(launch, "export", batch=batch)
        expected = as_read(spark, retained(launch.checkpoint, name, batch))
        assert by_place(exported(launch, batch)) == expected
        assert sum(answer.data["rows"].values()) == len(expected)
    before = DeltaTable(table_of(launch))
    again = operate(launch, "export")
    assert again.data["batch_id"] == newest.last
    after = DeltaTable(table_of(launch))
    assert (after.version(), after.metadata().partition_columns) == (
        before.version() + 1,
        ["stream", "generation", "batch_id"],
    )
    assert by_place(exported(launch, newest.last)) == as_read(spark, newest)

    rows = exported(launch, newest.last)
    assert rows and {(row["stream"], row["generation"]) for row in rows} == {(name, generation)}
    assert all(len(row["timers"]) == 1 for row in rows), "the logic knows when each key is due"
    assert all(row["timers"][0] > row["watermark"] for row in rows if row["watermark"])
    saved = operate(launch, "savepoint", reason="before").data["savepoint"]
    from_savepoint = operate(launch, "export", savepoint=saved)
    assert from_savepoint.data["rows"] == again.data["rows"]
    assert by_place(exported(launch, newest.last)) == as_read(spark, newest)
    kept = operate(launch, "export", batch=newest.batches[0], keep=2)
    assert kept.data["batch_id"] == newest.batches[0]
    left = {row["batch_id"] for row in DeltaTable(table_of(launch)).to_pyarrow_table().to_pylist()}
    assert left == {newest.batches[0], newest.last}, "this one, and the newest before it"
    with pytest.raises(StateError, match="expected a retained batch"):
        operate(launch, "export", batch=newest.last + 1)


@ci_full
def test_a_state_of_sparks_operators_is_exported_row_by_row(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = prepared(tmp_path, broker, EVENT_WINDOWS)
    users = [f"user-{number}" for number in range(4)]
    with running(launch, spark) as query:
        launch.send(record("user_id", user, "e1", 7, event_type="view", value=1) for user in users)
        settled(query, at(7))
        query.drain()
    newest = retained(launch.uri("checkpoint"), launch.stream.name)
    for batch in newest.batches[-2:]:
        found = export(
            spark,
            newest.uri,
            launch.stream.name,
            table_uri=table_of(launch),
            now=START,
            job=launch.stream.job,
            config=config_of(launch),
            batch_id=batch,
        )
        expected = as_read(spark, retained(newest.uri, launch.stream.name, batch))
        assert by_place(exported(launch, batch)) == expected
        assert sum(found.rows.values()) == len(expected)
    rows = exported(launch, newest.last)
    assert len(rows) == looked_at(spark, launch, samples=0).size.keys
    windows = [row for row in rows if row["operator"] == "stateStoreSave"]
    assert windows and all(at(7) < row["timers"][0] <= at(12) for row in windows)
    assert {(row["exported_at"] - START, row["bucket"]) for row in rows} == {(timedelta(0), None)}
