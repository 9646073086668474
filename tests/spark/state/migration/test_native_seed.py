"""Streams on Spark's own operators start with events of a table: the rows of one that read all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.compatibility.start import require_start
from stateward.state.errors import StateError
from stateward.state.operation.context import Context
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import running
from tests.support.state.operations import operate
from tests.support.streams.matches import JOB, MATCHES_STREAM, Event, MatchesLaunch, all_rows
from tests.support.streams.native import LATENESS_MS, NATIVES, Native, send
from tests.support.streams.oracle import difference, found_rows, of_tables
from tests.support.streams.short import START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.streams.catalogue import Record

pytestmark = pytest.mark.spark

QUIET = timedelta(days=1)
SETTINGS: dict[str, Any] = {"allowed_lateness_ms": LATENESS_MS, "max_records_per_batch": 100}


class NativeLaunch(Launch):
    """With the lateness of the records that are sent, for operations too."""

    def document(self, run_id: str = "run-1", **changes: Any) -> dict[str, Any]:
        return super().document(run_id, **{"allowed_lateness_ms": LATENESS_MS, **changes})


def table(records: Iterable[Record]) -> pa.Table:
    """The records that are events of some key, times as timestamps."""
    documents = [json.loads(value or b"") for key, value in records if key != b"junk"]
    for document in documents:
        document["event_time"] = datetime.fromisoformat(document["event_time"])
        for name in ("value", "amount"):
            if document.get(name) is not None:
                document[name] = float(document[name])
    return pa.Table.from_pylist(documents)


@pytest.mark.parametrize(
    "native",
    [
        pytest.param(native, marks=ci_full if native.stream.name == "payment_auth_join" else only_full)
        for native in NATIVES
    ],
    ids=lambda native: native.stream.name,
)
def test_a_seeded_stream_gives_the_rows_of_one_that_read_those_events(
    native: Native, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = NativeLaunch(tmp_path, broker, f"seeded-{native.stream.name}", stream=native.stream)
    sent = send(native, 3, keys=15, events_per_key=8)
    broker.create_topic(launch.topic, launch.partitions)
    third = len(sent.records) // 3
    seeds = table(sent.records[:third])
    uri = launch.uri("events")
    write_deltalake(uri, seeds)
    refused(launch, native, seeds)
    ids = {(row["event_id"], row[native.key]) for row in seeds.to_pylist()}
    would = operate(launch, "seed", dry_run=True, table=uri, key=native.key)
    assert (would.data["rows"], would.data["events"]) == (seeds.num_rows, len(ids))
    assert all("***(" in key for key, _ in would.data["examples"])
    assert generations.current(launch.uri("checkpoint")).number == 1
    sown = operate(launch, "seed", table=uri, key=native.key)
    by_operator = {operator: rows for operator, _, rows in sown.data["stored"]}
    assert by_operator["dedupeWithinWatermark"] == len(ids)
    assert operate(launch, "verdict").data["level"] == "compatible"
    with pytest.raises(StateError, match="expected a stream without a checkpoint"):
        operate(launch, "seed", table=uri, key=native.key)

    current = generations.current(launch.uri("checkpoint")).uri
    begin = Checkpoint(current).initial_offsets()[launch.topic]
    assert set(begin.values()) == {0}
    with running(launch, spark, checkpoint_uri=current, **SETTINGS) as query:
        require_start(native.stream.job, query.config)
        launch.send(sent.records[third : 2 * third])
        query.settle()
        query.drain()
    with running(launch, spark, "run-2", checkpoint_uri=current, **SETTINGS) as query:
        launch.send(sent.records[2 * third :])
        query.settle()
        query.tick(sent.last + QUIET)
        assert query.state_rows() == 0
        counted = query.counted()
    expected = of_tables(launch, native.oracle(sent.events, launch.stream.logic))
    assert all(expected.values())
    assert difference(found_rows(launch), expected) == {}
    assert counted["delivered"] == len(sent.records) - third
    assert (counted["late"], counted["accepted"]) == (0, len(sent.events) - len(ids))
    assert counted["without_record"] == 0


def refused(launch: Launch, native: Native, seeds: pa.Table) -> None:
    """Rows that are no event of the stream are reported, and nothing is written."""
    uri = launch.uri("no events")
    row = seeds.to_pylist()[0]
    wrong = {
        r"1 rows are no event \(1 rows: missing_field": [row, {**row, "event_id": None}],
        r"1 rows are no event \(1 rows: event_time_in_future": [
            row,
            {**row, "event_time": datetime.fromisoformat("2999-01-01T00:00:00Z")},
        ],
    }
    for message, rows in wrong.items():
        write_deltalake(uri, pa.Table.from_pylist(rows, seeds.schema), mode="overwrite")
        with pytest.raises(StateError, match=f"(?i){message}"):
            operate(launch, "seed", table=uri, key=native.key)
    write_deltalake(uri, seeds.drop_columns("event_time"), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(StateError, match="expected columns event_time in the table, found none"):
        operate(launch, "seed", table=uri, key=native.key)
    assert generations.current(launch.uri("checkpoint")).number == 1


@only_full
def test_events_of_two_topics_wait_for_each_other(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that have met already are refused, because an inner join has written their row."""
    monkeypatch.setattr(Context, "job", property(lambda context: JOB))
    launch = MatchesLaunch(tmp_path, broker, "seeded-matches", partitions=1, stream=MATCHES_STREAM)
    for topic in (launch.topic, launch.logins.topic):
        broker.create_topic(topic, 1)
    paid, alone, login = (of_topic("payments", "p1", 0), of_topic("payments", "p2", 60), login_at(1))
    uri = launch.uri("events")
    both = "complete 1 rows of matched_payments, 1 rows of matches among themselves"
    strange = "1 rows have another `input` than payments, logins"
    for rows, message in (([paid, login], both), ([paid, {**alone, "input": "refunds"}], strange)):
        write_deltalake(uri, pa.Table.from_pylist(rows), mode="overwrite", schema_mode="overwrite")
        with pytest.raises(StateError, match=message):
            operate(launch, "seed", table=uri, key="account_id")
    write_deltalake(uri, pa.Table.from_pylist([paid, alone]), mode="overwrite", schema_mode="overwrite")
    operate(launch, "seed", table=uri, key="account_id")
    current = generations.current(launch.uri("checkpoint")).uri
    with running(launch, spark, checkpoint_uri=current) as query:
        launch.logins.send([as_record(login)])
        query.settle()
        query.tick(START + QUIET)
        assert query.state_rows() == 0
    events = [
        Event(row["event_id"], ms_of(row), row["input"], "a1", row["device"]) for row in (paid, alone, login)
    ]
    assert difference(found_rows(launch), of_tables(launch, all_rows(events, None))) == {}


def of_topic(topic: str, event_id: str, after_s: int, device: str | None = None) -> dict[str, Any]:
    at = START + timedelta(seconds=after_s)
    return {
        "input": topic,
        "event_id": event_id,
        "account_id": "a1",
        "event_time": at,
        "device": device,
        "cents": 5,
    }


def login_at(after_s: int) -> dict[str, Any]:
    return of_topic("logins", "l1", after_s, "phone")


def ms_of(row: dict[str, Any]) -> int:
    return int(row["event_time"].timestamp() * 1000)


def as_record(row: dict[str, Any]) -> tuple[bytes, bytes]:
    found = {name: value for name, value in row.items() if name != "input"}
    return b"a1", json.dumps({**found, "event_time": row["event_time"].isoformat()}).encode()
