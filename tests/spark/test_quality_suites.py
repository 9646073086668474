"""Every suite that is shipped holds for rows that its stream makes, and not if they are there twice."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.control.launch import resolved_configuration
from include.settings import Settings
from include.spec import StreamSpec, load_specs
from include.traffic.generate import Plan, Traffic
from include.traffic.profiles import PROFILES
from include.traffic.records import Record, values_of
from spark_jobs.quality.expectations import Outcome
from spark_jobs.quality.suite import load_suite
from spark_jobs.quality.validate import Request, validate
from spark_jobs.runtime.config import parse_config
from spark_jobs.runtime.kafka_reader import read
from spark_jobs.runtime.offsets import Range
from spark_jobs.runtime.rows import decode_rows, encode_rows, row_schema
from spark_jobs.runtime.stream_job import Output
from spark_jobs.truth.registry import truth_about
from tests.kafka_broker import RunningBroker
from tests.spark.launches import CHECKOUT, RAW_EVENTS, Launch
from tests.traffic_truths import RECORDED_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SUITES = sorted((CHECKOUT / "include" / "quality").glob("*.yaml"))


@pytest.mark.parametrize("suite_file", SUITES, ids=lambda path: path.stem)
def test_a_suite_holds_for_its_streams_rows_and_not_for_rows_that_are_there_twice(
    suite_file: Path, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    table = load_suite(suite_file).table
    spec, output = maker_of(table)
    is_landed = spec.stream == RAW_EVENTS.name
    rows = landed(output, broker, tmp_path) if is_landed else expected_rows(spec, table)
    assert rows, "a table without a row shows nothing"
    packed = pa.Table.from_pylist(rows, schema=row_schema(output.table))
    request = Request(
        table_uri=f"file://{tmp_path}/{table}",
        table=table,
        stream=spec.stream,
        version=None,
        suite_file=suite_file,
        results_uri=f"file://{tmp_path}/quality_results",
        docs_dir=tmp_path / "docs",
        run_id="once",
    )
    output.table.create(request.table_uri)

    write_deltalake(request.table_uri, packed, mode="append")
    assert broken(validate(lambda: spark, request)) == {}

    write_deltalake(request.table_uri, packed, mode="append")
    assert broken(validate(lambda: spark, replace(request, run_id="twice"))) != {}


def broken(outcomes: Iterable[Outcome]) -> dict[str, str]:
    return {outcome.expectation.name: outcome.observed for outcome in outcomes if not outcome.success}


def maker_of(table: str) -> tuple[StreamSpec, Output]:
    """The stream that writes a table, and how."""
    found = [spec for spec in load_specs()[0] if table in spec.tables]
    assert len(found) == 1, f"expected one stream in include/streams to write {table}, found {found}"
    job = importlib.import_module(f"spark_jobs.{found[0].stream}.declaration").JOB
    return found[0], next(output for output in job.outputs if output.table.name == table)


def expected_rows(spec: StreamSpec, table: str) -> list[dict[str, Any]]:
    """What the stream makes of generated traffic, by the oracle and under its shipped settings."""
    config = parse_config(resolved_configuration(spec, Settings(), "test"), "test")
    truth = truth_about(config, RECORDED_MS)
    for record in traffic(config.topic):
        truth.see(record)
    return truth.finish().tables[table]


def landed(output: Output, broker: RunningBroker, folder: Path) -> list[dict[str, Any]]:
    """Rows of the records of a topic as they are read from the broker, for which there is no oracle."""
    launch = Launch(folder, broker, "suite-of-raw-events", partitions=1, stream=RAW_EVENTS)
    broker.create_topic(launch.topic, launch.partitions)
    end = launch.send((record.key, record.value) for record in traffic("user_events"))
    messages = [found for part in read(broker.bootstrap, [Range(launch.topic, 0, 0, end)]) for found in part]
    rows = [launch.stream.job.row(message) for message in messages]
    return list(decode_rows(encode_rows(output.table, rows)).to_pylist())


@cache
def traffic(topic: str) -> list[Record]:
    """Two minutes of a topic, with everything that can happen to a record but its size."""
    plan = Plan(replace(PROFILES["storm"], oversized=0), seed=3, rate=40, minutes=2, topics=(topic,))
    made = Traffic(plan)
    return [record for pieces in (made.slices(), made.late()) for _, record in values_of(pieces)]
