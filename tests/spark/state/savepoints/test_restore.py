"""Going back to a savepoint in mid-stream: in the end everything is as if nothing had happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.runtime.checkpoint import generations
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import COUNTS, Running, running
from tests.support.state.operations import new_launch, operate
from tests.support.streams.catalogue import Sent
from tests.support.streams.oracle import difference, expected_rows, found_rows, in_order
from tests.support.streams.payments import QUIET, payments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# So few that what is read again takes several batches: a tick from before would make most of them late.
SETTINGS: dict[str, Any] = {"max_records_per_batch": 300}
NOT_COMPARED = {"topic", "record_timestamp", "generation", "batch_id"}


def feed(launch: Launch, query: Running, sent: Sent, part: int) -> None:
    third = len(sent.records) // 3
    launch.send(sent.records[part * third : (part + 1) * third if part < 2 else None])
    query.settle()
    if part == 0:
        launch.send([late(sent)])
        query.settle()
    if part == 2:
        query.tick(sent.last + QUIET)


def late(sent: Sent) -> tuple[bytes | None, bytes | None]:
    """The first payment once more, as another one that comes hours too late."""
    valid = {account.encode() for account, _ in sent.events}
    key, value = next(record for record in sent.records if record[0] in valid)
    assert value is not None
    return key, json.dumps({**json.loads(value), "event_id": "late"}).encode()


def shared(launch: Launch, table: str) -> list[dict[str, Any]]:
    return in_order(
        [{key: row[key] for key in row.keys() - NOT_COMPARED} for row in map(ordered, launch.rows(table))]
    )


def ordered(row: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(row.items()))


def sums(launch: Launch) -> dict[str, int]:
    rows = launch.rows("batch_counts")
    return {name: sum(row[name] for row in rows) for name in (*COUNTS, "rows_out")}


@ci_full
def test_after_a_restore_everything_is_as_if_nothing_had_happened(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    sent = payments(seed=11, accounts=120)
    undisturbed = new_launch(tmp_path, broker, "undisturbed")
    with running(undisturbed, spark, checkpoint_uri=undisturbed.checkpoint, **SETTINGS) as query:
        for part in range(3):
            feed(undisturbed, query, sent, part)
    assert difference(found_rows(undisturbed), expected_rows(undisturbed, sent.events)) == {}

    launch = new_launch(tmp_path, broker, "restored")
    first = launch.checkpoint
    with running(launch, spark, "run-1", checkpoint_uri=first, **SETTINGS) as query:
        feed(launch, query, sent, 0)
        query.drain()
    saved = operate(launch, "savepoint", reason="test")
    at_savepoint = {name: in_order(launch.rows(name)) for name in launch.table_names}
    with running(launch, spark, "run-2", checkpoint_uri=first, **SETTINGS) as query:
        feed(launch, query, sent, 1)
        query.tick(sent.last + QUIET)  # whatever comes after it would be late
        query.drain()
    assert found_rows(launch) != {name: at_savepoint[name] for name in launch.stream.tables}

    restored = operate(launch, "restore", savepoint=saved.data["savepoint"])
    assert restored.data["records"] == len(sent.records) // 3
    assert generations.current(launch.uri("checkpoint")).number == 2
    assert {name: in_order(launch.rows(name)) for name in launch.table_names} == at_savepoint

    # The first generation is not needed by the second.
    (launch.folder / "checkpoint" / "g0001").rename(launch.folder / "away")
    with running(launch, spark, "run-3", checkpoint_uri=launch.checkpoint, **SETTINGS) as query:
        query.settle()
        feed(launch, query, sent, 2)
        counted = query.counted()
        assert query.state_rows() == 0

    assert difference(found_rows(launch), expected_rows(launch, sent.events)) == {}
    assert difference(found_rows(launch), found_rows(undisturbed)) == {}
    for name in ("dead_letters", "late_events"):
        assert shared(launch, name) == shared(undisturbed, name)
    assert len(launch.rows("dead_letters")) == sent.dead
    assert [row["event_id"] for row in launch.rows("late_events")] == ["late"]
    assert sums(launch) == sums(undisturbed)
    assert sum(counted[name] for name in COUNTS) == counted["delivered"] == len(sent.records) + 1
