"""A trial of a stream: its rows are those of its oracle for the records that were made, without Kafka."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from proof.truth.keyed_truth import event_of, oracle_rows
from stateward.cli.streams.trial import in_folder
from stateward.contract.reading import as_json
from stateward.contract.requests import TrialRequest, read_request
from stateward.control.launchers.launch import driver_config
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from stateward.runtime.api.any_job import configured
from stateward.runtime.ingest.parse import Parsed
from stateward.runtime.ingest.shaped_records import parser_of
from stateward.runtime.kafka.rate import rate_at
from stateward.runtime.query.stream_query import session_conf
from stateward.trial.job import Request, trial_config, trial_query
from tests.support.full import ci_full, only_full
from tests.support.spark.launches import stream as stream_of
from tests.support.spark.running_query import _UNCHANGED
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RECORDS = 200


@ci_full
@pytest.mark.parametrize("stream", ["user_sessions", pytest.param("event_windows", marks=only_full)])
def test_the_rows_that_are_shown_are_those_of_the_oracle(
    stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    """An hour of event time passes in a second, so every session and window ends while the test waits."""
    config = in_folder(driver_config(load_spec(stream), Settings(), "try"), f"file://{tmp_path}")
    document = as_json(
        TrialRequest(config=config, rate=100, speed=3600, keys=7, records=RECORDS, rows=RECORDS * 50)
    )
    request = read_request(Request, document, "here", "")
    job = configured(stream_of(stream).job, request.config)
    for name, value in {
        **_UNCHANGED,
        **session_conf(job, request.config),
        "spark.sql.shuffle.partitions": "2",
    }.items():
        spark.conf.set(name, value)
    lines = list[str]()
    began_ms = int(time.time() * 1000)
    trial = trial_query(spark, request, job, began_ms, lines.append)
    query = trial.start()
    try:
        progress: Any = None

        def is_over() -> bool:
            nonlocal progress
            progress = query.lastProgress
            return sum(_records(lines)) == RECORDS and _state_rows(progress) == 0

        wait_until(is_over, PATIENCE_S, lambda: f"all records are read and no state is left: {progress}")
    finally:
        query.stop()

    expected = _expected(request, job, began_ms)
    shown = "\n".join(lines)
    for output in job.outputs:
        wanted = [row for row in expected if type(row) is output.row]
        counts = re.findall(rf"^{output.table.name}: (\d+) rows?$", shown, re.MULTILINE)
        assert wanted and sum(map(int, counts)) == len(wanted)
        for row in wanted:
            assert str(row[0]) in shown, "every row is shown by its identity"
    assert "dead" not in "".join(line for line in lines if "records (" in line)


def _records(lines: list[str]) -> list[int]:
    return [int(line.partition(" ")[0]) for line in lines if " records (" in line]


def _state_rows(progress: Any) -> int:
    if progress is None:
        return -1
    return sum(operator["numRowsTotal"] for operator in progress["stateOperators"])


def _expected(request: Request, job: Any, began_ms: int) -> list[tuple[Any, ...]]:
    config = trial_config(request, job, began_ms)
    rate = rate_at(config.bootstrap_servers)
    assert rate is not None
    parser = parser_of(job.fields(config), config.bounds)
    events = dict[str, list[Any]]()
    for offset in range(RECORDS):
        message = rate.record(config.topic, offset)
        parsed = parser.parse(message.value(), message.timestamp()[1])
        assert isinstance(parsed, Parsed)
        events.setdefault(job.owner(parsed.record), []).append(event_of(job, parsed))
    return list(oracle_rows(job, config, events))
