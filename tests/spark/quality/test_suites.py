"""Every suite that is shipped holds for rows that its stream makes, and not if they are there twice."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from proof.traffic.generate import Plan, Traffic
from proof.traffic.profiles import PROFILES
from proof.traffic.records import Record, values_of
from proof.truth.expected import Expected
from proof.truth.registry import truth_about
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, load_spec, load_specs
from stateward.quality.validation.expectations import Outcome
from stateward.quality.validation.validate import validate
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.stream_job import Output
from stateward.runtime.api.tables import BATCH_COUNTS, DEAD_LETTERS, LATE_EVENTS, SHARED_TABLES, Table
from stateward.runtime.checkpoint.offsets import Range
from stateward.runtime.kafka.reader import read
from stateward.runtime.sink.output_rows import COUNT_NAMES, OUTCOME_NAMES, decode_rows, encode_rows
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import CHECKOUT, RAW_EVENTS, Launch
from tests.support.spark.written_batches import GENERATION, Written
from tests.support.streams.oracle import RECORDED_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = datetime.fromtimestamp(RECORDED_MS / 1000, UTC) + timedelta(days=2)
SUITES = sorted((CHECKOUT / "include" / "quality").glob("*.yaml"))
# Rows of a keyed stream in `make test`; counts and one of Spark's operators in CI; others in `make full`.
FEW = ("sessions",)
IN_CI = ("batch_counts", "event_windows_tumbling")


def marks(table: str) -> tuple[pytest.MarkDecorator, ...]:
    if table in FEW:
        return ()
    return (ci_full if table in IN_CI else only_full,)


@pytest.mark.parametrize(
    "suite_file", [pytest.param(file, marks=marks(file.stem), id=file.stem) for file in SUITES]
)
def test_a_suite_holds_for_its_streams_rows_and_not_for_rows_that_are_there_twice(
    suite_file: Path, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    made = rows_of(suite_file.stem, broker, tmp_path)
    assert made.rows, "a table without a row shows nothing"
    written = Written(tmp_path, made.table, made.stream)

    written.batch(made.rows, dead=len(made.rows), late=len(made.rows))
    assert broken(validate(lambda: spark, written.request("once"), NOW)) == {}

    written.batch(made.rows, dead=len(made.rows), late=len(made.rows))
    assert broken(validate(lambda: spark, written.request("twice"), NOW)) != {}


def broken(outcomes: Iterable[Outcome]) -> dict[str, str]:
    return {outcome.expectation.name: outcome.observed for outcome in outcomes if not outcome.success}


class Made(NamedTuple):
    """Rows of a table, and the stream that writes them."""

    table: Table
    stream: str
    rows: list[dict[str, Any]]


def rows_of(table: str, broker: RunningBroker, folder: Path) -> Made:
    """What a stream makes of generated traffic, by the oracle and under its shipped settings."""
    if table in {shared.name for shared in SHARED_TABLES}:
        return shared_rows(table)
    found = [spec for spec in load_specs()[0] if table in spec.tables]
    assert len(found) == 1, f"expected one stream in include/streams to write {table}, found {found}"
    spec = found[0]
    job = importlib.import_module(f"spark_jobs.{spec.stream}.declaration").JOB
    output = next(output for output in job.outputs if output.table.name == table)
    is_landed = spec.stream == RAW_EVENTS.name
    rows = landed(output, broker, folder) if is_landed else expected(spec).tables[table]
    return Made(output.table, spec.stream, rows)


def expected(spec: StreamSpec) -> Expected:
    config = parse_config(resolved_configuration(spec, Settings(), "test"), "test")
    truth = truth_about(config, RECORDED_MS)
    for record in traffic(config.topic):
        truth.see(record)
    return truth.finish()


def shared_rows(table: str) -> Made:
    """Rows of a table that all streams share; of them, those of one stream."""
    spec = load_spec("user_sessions")
    found = expected(spec)
    marks = {"stream": spec.stream, "generation": GENERATION, "batch_id": 0}
    if table == BATCH_COUNTS.name:
        counts = dict.fromkeys((*COUNT_NAMES, "rows_out"), 0) | found.counts
        counts["records"] = sum(counts[name] for name in OUTCOME_NAMES)
        by_table = json.dumps({"sessions": counts["rows_out"]})
        row = {**marks, **counts, "epoch": 1, "run_id": "r1", "committed_at": NOW - timedelta(days=1)}
        row["rows_by_table"] = by_table
        return Made(BATCH_COUNTS, spec.stream, [row])
    shape, rows = (
        (DEAD_LETTERS, found.dead_letters) if table == DEAD_LETTERS.name else (LATE_EVENTS, found.late_events)
    )
    record = {
        "topic": "user_events",
        "partition": 0,
        "record_timestamp": NOW - timedelta(days=1),
        "watermark": NOW,
    }
    named = [{**marks, **record, "offset": offset, **row} for offset, row in enumerate(rows)]
    return Made(shape, spec.stream, named)


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
