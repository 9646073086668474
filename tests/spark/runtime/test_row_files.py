"""Tasks write the rows of a large batch: exactly once, whatever dies; every row is the oracle's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark import TaskContext

from proof.traffic.records import DEAD, EVENT, Record
from stateward.contract import storage
from stateward.runtime.api.record_fields import Reason
from stateward.runtime.query import stream_query
from stateward.runtime.sink import row_files
from stateward.runtime.sink.ledger import BatchCounts, Ledger
from stateward.runtime.sink.row_files import FileTarget, RowFiles
from stateward.runtime.sink.table_commits import TableWrite
from tests.spark.streams.test_any_cut import truth
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import RAW_EVENTS, USER_SESSIONS, Launch, real_events
from tests.support.spark.running_query import COUNTS, running
from tests.support.streams.native import LATENESS_MS, NATIVES, send
from tests.support.streams.oracle import difference, found_rows, in_order, of_tables
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

END = datetime(2015, 5, 22, tzinfo=UTC)
BATCH = 2_500
JUNK = [Record(DEAD, b"k%d" % n, b"\xff" * 40, Reason.NOT_UTF8) for n in range(40)]


@pytest.fixture(scope="module")
def spark_settings() -> dict[str, str]:
    """A Spark that tries a task again."""
    return {"spark.master": "local[2,3]"}


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "RETURNED_BYTES", 0)
    monkeypatch.setattr(row_files, "LEAST_RETURNED_BYTES", 2_000)


@contextmanager
def dying(call: str) -> Iterator[None]:
    """The driver fails in a batch with sessions: before its commits, after the first, or after all."""
    with pytest.MonkeyPatch.context() as patch:
        commit, note = TableWrite.commit, Ledger.note
        commits: list[TableWrite] = []

        def failing(write: TableWrite, check: Callable[[], int]) -> None:
            if not write._uri.endswith("/sessions"):
                commit(write, check)
                return
            if call != "before":
                commit(write, check)
            commits.append(write)
            if call != "after":
                raise OSError("the driver dies")

        def noted(ledger: Ledger, batch: BatchCounts) -> None:
            if commits:
                raise OSError("the driver dies")
            note(ledger, batch)

        patch.setattr(TableWrite, "commit", failing)
        patch.setattr(Ledger, "note", noted)
        yield
        assert len(commits) == 1


def files_below(launch: Launch, table: str) -> tuple[set[str], set[str]]:
    """The data files that are in a table, and the other files below its folder."""
    uri = launch.uri("tables", table)
    there = {name for name in storage.sizes_below(uri) if not name.startswith("_delta_log")}
    committed = {name.rpartition(f"/{table}/")[2] for name in DeltaTable(uri).file_uris()}
    return committed, there - committed


def test_a_driver_that_dies_before_within_or_after_the_commits_writes_every_row_once(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    from pyspark.errors import StreamingQueryException

    launch = Launch(tmp_path, broker, "row-files-sessions", stream=USER_SESSIONS.in_full)
    broker.create_topic(launch.topic, launch.partitions)
    sent = [Record(EVENT, key, value) for key, value in real_events()]
    parts = [sent[begin : begin + BATCH] + JUNK[begin // BATCH :: 4] for begin in range(0, len(sent), BATCH)]
    expected = truth(launch, [record for part in parts for record in part])

    for number, (call, part) in enumerate(zip(("before", "between", "after"), parts, strict=False)):
        with running(launch, spark, f"run-{number}") as query:
            query.settle()
            with dying(call), pytest.raises(StreamingQueryException, match="the driver dies"):
                launch.send((record.key, record.value) for record in part)
                query.query.processAllAvailable()
    with running(launch, spark, "run-3") as query:
        launch.send((record.key, record.value) for record in parts[3])
        query.settle()
        before_the_end = len(launch.rows("sessions"))
        query.tick(END)
        wait_until(lambda: query.state_rows() == 0, PATIENCE_S, "no state is left")
        counted = query.counted()

    wanted = {table: in_order(rows) for table, rows in expected.tables.items()}
    assert difference(found_rows(launch), wanted) == {}
    assert (before_the_end, len(launch.rows("sessions"))) == (3_027, 3_052), (
        "the others wait for the watermark"
    )
    assert {name: counted[name] for name in COUNTS} == expected.counts
    dead = [{name: row[name] for name in ("reason", "key", "value")} for row in launch.rows("dead_letters")]
    assert in_order(dead) == in_order(expected.dead_letters)
    assert counted["rows_out"] == sum(row["rows_out"] for row in launch.rows("batch_counts"))
    for table in ("sessions", "dead_letters"):
        assert len(files_below(launch, table)[0]) > len(parts), "of tasks and of the driver"
    orphans = files_below(launch, "sessions")[1]
    assert any(name.endswith(".parquet") for name in orphans), "of the batches that ran twice"
    assert any(name.endswith(".files.json") for name in orphans), "and the lists of these"
    merged = files_below(launch, "current_sessions")[1]
    assert not any(name.endswith(".files.json") for name in merged), "rows of a MERGE go through the driver"


class FailsOnce(FileTarget):
    """A table whose tasks fail once: when the data files are written, and their list is not."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        context = TaskContext.get()
        if name != "uri" or context is None or context.attemptNumber():
            return found
        if any(one.endswith(".parquet") for one in storage.sizes_below(found)):
            raise OSError("the task dies")
        return found


def test_only_the_files_of_the_attempt_that_ended_are_committed(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any, **options: Any) -> RowFiles:
        plan = row_files.row_files(*args, **options)
        return replace(plan, targets={name: FailsOnce(*one) for name, one in plan.targets.items()})

    monkeypatch.setattr(stream_query, "row_files", failing)
    launch = Launch(tmp_path, broker, "row-files-again", stream=RAW_EVENTS)
    broker.create_topic(launch.topic, launch.partitions)
    launch.send((b"k%d" % number, b"v" * 100) for number in range(600))
    with running(launch, spark, topics=[launch.topic]) as query:
        query.settle()
        counted = query.counted()

    assert counted["rows_out"] == counted["delivered"] == 600
    assert len({(row["partition"], row["offset"]) for row in launch.rows("raw_events")}) == 600
    committed, orphans = files_below(launch, "raw_events")
    assert committed
    assert any(name.endswith(".parquet") for name in orphans), "a task was tried again after its files"


@ci_full
def test_sparks_own_operators(tmp_path: Path, broker: RunningBroker, spark: SparkSession) -> None:
    native = NATIVES[0]
    launch = Launch(tmp_path, broker, "row-files-native", stream=native.stream)
    broker.create_topic(launch.topic, launch.partitions)
    sent = send(native, 1, keys=40, events_per_key=10)
    with running(launch, spark, allowed_lateness_ms=LATENESS_MS) as query:
        launch.send(sent.records)
        query.settle()
        query.tick(sent.last + timedelta(days=1))
        wait_until(lambda: query.state_rows() == 0, PATIENCE_S, "no state is left")
        counted = query.counted()

    expected = of_tables(launch, native.oracle(sent.events, launch.stream.logic))
    assert difference(found_rows(launch), expected) == {}
    assert counted["rows_out"] == sum(map(len, expected.values()))
    for table in expected:
        assert files_below(launch, table)[1] == set(), "lists are removed after the commit"
