"""What `batch_counts` says of one table of a stream that has two is held against that table."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from spark_jobs.fraud_watch.declaration import FRAUD_ALERTS
from stateward.quality.validation.validate import validate
from stateward.runtime.api.tables import BATCH_COUNTS
from tests.support.full import ci_full, only_full
from tests.support.spark.written_batches import Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNTED, FRESH = "rows_are_those_that_were_counted", "table_is_fresh"


def alert(number: int) -> dict[str, Any]:
    return {"alert_id": f"a{number}", "account_id": "acc", "raised_at": datetime(2026, 1, 1, tzinfo=UTC)}


def by_table(alerts: int, summaries: int) -> dict[str, Any]:
    """What a batch is said to have put out."""
    each = {"fraud_alerts": alerts, "fraud_summaries": summaries}
    return {"rows_out": alerts + summaries, "rows_by_table": json.dumps(each)}


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Three sound batches: alerts, alerts with summaries, alerts; and one after them of summaries alone."""
    made = Written(tmp_path, FRAUD_ALERTS, "fraud_watch")
    made.batch([alert(0)], **by_table(1, 0))
    made.batch([alert(1), alert(2)], **by_table(2, 5))
    made.batch([alert(3)], **by_table(1, 0))
    made.lost(**by_table(0, 7), committed_at=datetime.now(UTC) + timedelta(minutes=30))
    return made


def failed(written: Written, spark: SparkSession) -> set[str]:
    """Those of the two expectations that do not hold."""
    request = written.request("run")
    suite = yaml.safe_load(request.suite_file.read_text())
    suite["expectations"] = [one for one in suite["expectations"] if one["name"] in (COUNTED, FRESH)]
    only = written.home / "suite.yaml"
    only.write_text(yaml.safe_dump(suite))
    outcomes = validate(lambda: spark, replace(request, suite_file=only), datetime.now(UTC))
    by_name = {one.expectation.name: one for one in outcomes}
    return {name for name in (COUNTED, FRESH) if not by_name[name].success}


def test_rows_of_the_other_table_are_not_missed(written: Written, spark: SparkSession) -> None:
    assert failed(written, spark) == set()


@ci_full
def test_fewer_rows_than_were_counted_are_found(written: Written, spark: SparkSession) -> None:
    written.batch([alert(9)], **by_table(2, 9))
    assert failed(written, spark) == {COUNTED}


@only_full
def test_a_batch_that_was_counted_and_has_not_come_is_found(written: Written, spark: SparkSession) -> None:
    written.lost(**by_table(2, 5))
    written.batch([alert(9)], **by_table(1, 0))
    assert failed(written, spark) == {COUNTED}


@ci_full
def test_a_table_that_nothing_comes_into_is_stale(written: Written, spark: SparkSession) -> None:
    written.lost(**by_table(1, 0), committed_at=datetime.now(UTC) + timedelta(minutes=20))
    assert failed(written, spark) == {FRESH}


@ci_full
def test_batches_of_an_earlier_release_are_judged_by_what_they_say(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Their `batch_counts` lacks the column until a driver of this release has started."""
    made = Written(tmp_path, FRAUD_ALERTS, "fraud_watch")
    made.batch([alert(0)], rows_out=4)
    made.batch([alert(1), alert(2)], rows_out=2)
    as_of_an_earlier_release(made.uri_of("batch_counts"))
    assert failed(made, spark) == set()


@only_full
def test_too_many_rows_are_found_of_an_earlier_release_too(tmp_path: Path, spark: SparkSession) -> None:
    made = Written(tmp_path, FRAUD_ALERTS, "fraud_watch")
    made.batch([alert(1), alert(2)], rows_out=1)
    as_of_an_earlier_release(made.uri_of("batch_counts"))
    assert failed(made, spark) == {COUNTED}


def as_of_an_earlier_release(uri: str) -> None:
    """Create `batch_counts` again, without the column and its values."""
    rows = DeltaTable(uri).to_pyarrow_table().drop_columns(["rows_by_table"])
    shutil.rmtree(uri.removeprefix("file://"))
    columns = tuple(one for one in BATCH_COUNTS.columns if one.name != "rows_by_table")
    replace(BATCH_COUNTS, columns=columns, nullable=()).create(uri)
    write_deltalake(uri, rows, mode="append")
