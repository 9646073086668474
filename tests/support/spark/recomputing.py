"""Recomputing what a launch has written: its records landed, a request for a range, one row altered."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from stateward.project.durations import to_ms
from stateward.project.spec import load_spec
from stateward.recompute.request import Request, job_of, parse_request
from tests.support.spark.launches import RAW_EVENTS, Launch
from tests.support.spark.running_query import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def land(launch: Launch, spark: SparkSession) -> None:
    """Put the launch's topic into raw_events, as the stream of that name does."""
    folder = launch.folder / "landing"
    folder.mkdir()
    landing = replace(launch, folder=folder, stream=RAW_EVENTS, drivers=[])
    tables = {name: launch.uri("tables", name) for name in landing.table_names}
    with running(landing, spark, max_records_per_batch=4000, tables=tables) as query:
        query.settle()
        query.drain()


def request(launch: Launch, begin: datetime, end: datetime, **changes: Any) -> Request:
    if "chain_ms" not in changes:
        changes["chain_ms"] = to_ms(load_spec(launch.stream.name).logic.longest())
    document = {
        "version": 1,
        "config": launch.document(),
        "from_ms": milliseconds(begin),
        "to_ms": milliseconds(end),
        "raw_uri": launch.uri("tables", "raw_events"),
        "into_uri": launch.uri("backfill"),
        "report_uri": launch.uri("report.json"),
        "with_late": False,
        "compare": True,
    }
    return parse_request({**document, **changes}, "test")


def recomputed(spark: SparkSession, wanted: Request) -> dict[str, Any]:
    from stateward.recompute.recompute import recompute

    return recompute(spark, wanted, job_of(wanted.config.stream), lambda part, what: None)


def alter(launch: Launch, table: str, predicate: str, **updates: str) -> None:
    done = DeltaTable(launch.uri("tables", table)).update(updates=updates, predicate=predicate)
    assert done["num_updated_rows"] == 1


def differences(launch: Launch, table: str) -> list[dict[str, Any]]:
    """The rows that only one side has, those of the live table first."""
    found = DeltaTable(launch.uri("backfill", "differences", table)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["only_in"], reverse=True)


def explained_by(launch: Launch, row: dict[str, Any]) -> list[str]:
    """The ids of a row's events, each looked up where it says that it is."""
    raw = {(one["topic"], one["partition"], one["offset"]): one["value"] for one in launch.rows("raw_events")}
    for event in row["events"]:
        found = json.loads(raw[event["topic"], event["partition"], event["offset"]])
        assert found["event_id"] == event["event_id"]
        assert datetime.fromisoformat(found["event_time"]) == event["event_time"]
    return [event["event_id"] for event in row["events"]]


def milliseconds(moment: datetime) -> int:
    return to_ms(moment - datetime(1970, 1, 1, tzinfo=UTC))
