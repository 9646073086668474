"""Validating a real Delta table: results, failing rows, reports, and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from markupsafe import escape

from spark_jobs.user_sessions.declaration import SESSIONS
from stateward.contract.storage import read_text
from stateward.quality.privacy.masking import mask
from stateward.quality.suites.suite import SuiteError
from stateward.quality.tables.version_range import ValidationError
from stateward.quality.validation.request import Request
from stateward.quality.validation.validate import main, validate
from stateward.runtime.api.tables import arrow_schema
from tests.support.full import ci_full
from tests.support.spark.written_batches import Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
JARS = ",".join(str(jar) for jar in sorted((ROOT / "jars" / "spark").glob("*.jar")))
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = arrow_schema(SESSIONS)
SECRET = "a secret of a test"


def session(number: int, **changes: Any) -> dict[str, Any]:
    started = START + timedelta(minutes=number)
    return {
        "session_id": f"s{number}",
        "user_id": f"u{number}",
        "started_at": started,
        "ended_at": started + timedelta(seconds=90),
        "duration_ms": 90_000,
        "event_count": 3,
        "last_event_type": "view",
        "close_reason": "TIMEOUT",
        "closed_at": started + timedelta(minutes=31),
    } | changes


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> Request:
    """A table whose version 1 is sound, and whose version 2 adds rows that break five expectations."""
    written = Written(tmp_path_factory.mktemp("quality"), SESSIONS, "user_sessions")
    sound = [session(number) for number in range(20)]
    broken = [
        session(3),
        session(40, duration_ms=-5),
        session(41, close_reason="BORED"),
        session(42, user_id=None),
    ]
    for rows in (sound, broken):
        written.batch(rows)
    run_id = "quality_user_sessions/manual__2026-01-01T00:00:00+00:00/1"
    return written.request(run_id, last=1)


def results(request: Request) -> list[dict[str, Any]]:
    table = DeltaTable(request.results_uri).to_pyarrow_table(filters=[("run_id", "=", request.run_id)])
    return list(table.to_pylist())


def page_of(request: Request, path: str) -> str:
    return read_text(f"{request.docs_uri}/{path}") or ""


def test_an_older_sound_version_passes_and_is_written_once(spark: SparkSession, request_: Request) -> None:
    for _ in range(2):  # the second time is a retry under the same run id
        outcomes = validate(lambda: spark, request_)
        assert [outcome.expectation.name for outcome in outcomes if not outcome.success] == []
    rows = results(request_)
    assert len(rows) == len(outcomes)
    assert {(row["from_version"], row["table_version"]) for row in rows} == {(0, 1)}
    assert {row["table_id"] for row in rows} == {str(DeltaTable(request_.table_uri).metadata().id)}
    assert all(row["success"] and row["failing_rows_sample"] is None for row in rows)


def test_the_latest_version_fails_and_shows_the_failing_rows(
    spark: SparkSession, request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWARD_MASK_SECRET", SECRET)
    request = replace(request_, to_version=None, run_id="latest")
    validate(lambda: spark, request)
    failed = {row["name"]: row for row in results(request) if not row["success"]}
    assert set(failed) == {
        "session_id_is_unique",
        "duration_is_not_negative",
        "duration_is_end_minus_start",
        "close_reason_is_known",
        "user_id_is_present",
        "no_sessions_of_a_user_overlap",
    }
    assert {(row["from_version"], row["table_version"]) for row in failed.values()} == {(2, 2)}
    sample = {name: json.loads(row["failing_rows_sample"]) for name, row in failed.items()}
    assert [row["session_id"] for row in sample["session_id_is_unique"]] == [mask(SECRET, "s3")] * 2
    assert sample["close_reason_is_known"][0]["close_reason"] == "BORED"
    assert [row["session_id"] for row in sample["user_id_is_present"]] == [mask(SECRET, "s42")]
    assert failed["session_id_is_unique"]["unexpected_count"] == 2
    assert failed["close_reason_is_known"]["unexpected_percent"] == pytest.approx(100 / 4)
    assert "BORED" in failed["close_reason_is_known"]["observed_value"]
    assert failed["duration_is_not_negative"]["severity"] == "critical"


@ci_full
def test_a_value_that_is_html_is_text_in_the_report(spark: SparkSession, tmp_path: Path) -> None:
    hostile = '</pre></td><meta http-equiv="refresh" content="0;url=https://evil.example/"><script>alert(1)</script>'
    written = Written(tmp_path, SESSIONS, "user_sessions")
    written.batch([session(1, close_reason=hostile, last_event_type=hostile, session_id=hostile)] * 2)
    request = written.request("hostile")
    validate(lambda: spark, request)
    [docs_path] = {row["docs_path"] for row in results(request)}
    for text in (page_of(request, docs_path), page_of(request, "index.html")):
        assert "<script" not in text and "http-equiv" not in text.replace("&lt;meta http-equiv", "")
    assert escape(hostile) in page_of(request, docs_path)


def test_the_report_is_a_page_without_scripts_and_without_other_hosts(
    spark: SparkSession, request_: Request
) -> None:
    request = replace(request_, from_version=2, to_version=2, run_id="for the page")
    validate(lambda: spark, request)
    [docs_path] = {row["docs_path"] for row in results(request)}
    page = page_of(request, docs_path)
    assert "session_id" in page
    assert "BORED" in page
    assert "Failed" in page
    index = page_of(request, "index.html")
    assert docs_path in index
    for text in (page, index):
        assert "<script" not in text
        assert "http://" not in text
        assert "https://" not in text


def changed_by_hand(schema: pa.Schema) -> pa.Schema:
    place = schema.get_field_index("duration_ms")
    return schema.set(place, pa.field("duration_ms", pa.int32()))


def test_a_column_that_is_missing_or_has_another_type_fails_its_expectations(
    spark: SparkSession, request_: Request
) -> None:
    uri = f"{request_.table_uri}_narrow"
    rows = pa.Table.from_pylist([session(1)], schema=SCHEMA).drop_columns(["event_count"])
    write_deltalake(uri, rows.cast(changed_by_hand(rows.schema)))
    request = replace(request_, table_uri=uri, to_version=None, run_id="narrow")
    failed = {o.expectation.name: o.observed for o in validate(lambda: spark, request) if not o.success}
    assert set(failed) == {
        "columns_are_those_of_the_contract",
        "event_count_is_a_long",
        "duration_ms_is_a_long",
        "session_has_an_event",
    }
    assert "event_count" in failed["session_has_an_event"]


def test_what_does_not_exist_is_refused_before_spark_starts(request_: Request, tmp_path: Path) -> None:
    def never() -> SparkSession:
        raise AssertionError("Spark was started")

    with pytest.raises(ValidationError, match="versions 0 to 2, asked for 99"):
        validate(never, replace(request_, to_version=99))
    with pytest.raises(ValidationError, match=r"expected a Delta table .* found none"):
        validate(never, replace(request_, table_uri=f"file://{tmp_path}/none"))
    with pytest.raises(SuiteError, match="suite sessions is for table sessions, not others"):
        validate(never, replace(request_, table="others"))


def arguments(request: Request) -> list[str]:
    given = {
        "--table-uri": request.table_uri,
        "--table": request.table,
        "--stream": request.stream,
        "--suite-file": request.suite_file,
        "--results-uri": request.results_uri,
        "--docs-uri": request.docs_uri,
        "--run-id": request.run_id,
        "--from-version": "next" if request.from_version is None else request.from_version,
        "--to-version": "latest" if request.to_version is None else request.to_version,
    }
    return [str(part) for pair in given.items() for part in pair]


def test_exit_code_1_for_what_cannot_be_validated(request_: Request) -> None:
    assert main(arguments(replace(request_, to_version=99))) == 1


@ci_full
def test_spark_submit_exits_with_2_when_an_expectation_fails(request_: Request) -> None:
    request = replace(request_, from_version=2, to_version=2, run_id="submitted")
    command = ["spark-submit", "--master", "local[2]", "--jars", JARS, "--conf", "spark.ui.enabled=false"]
    run = subprocess.run(
        [*command, str(ROOT / "stateward" / "quality" / "validation" / "validate.py"), *arguments(request)],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=300,
    )
    assert run.returncode == 2, run.stdout + run.stderr
    assert "FAILED session_id_is_unique (critical)" in run.stdout
    assert len(results(request)) == 33
