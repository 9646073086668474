"""Nothing that people read of a validation has a value of a person in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.action_counts.declaration import ACTION_COUNTS
from spark_jobs.user_sessions.declaration import SESSIONS
from stateward.quality.privacy.masking import mask
from stateward.quality.quarantine.valid_view import register_valid
from stateward.quality.validation.request import Request
from stateward.quality.validation.validate import validate
from stateward.runtime.api.key_logic import row_id
from stateward.runtime.api.tables import BATCH_COUNTS, arrow_schema
from tests.support.full import ci_full
from tests.support.spark.launches import CHECKOUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECRET = "a secret of a test"


def test_a_persons_value_is_in_nothing_that_people_read(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STATEWARD_MASK_SECRET", SECRET)
    person = "a-distinctive-person"
    uri = f"file://{tmp_path}/tables/action_counts"
    ACTION_COUNTS.create(uri)
    BATCH_COUNTS.create(f"file://{tmp_path}/tables/batch_counts")
    row = {"user_id": person, "action_count": 0, "last_action": "view", "is_final": False}
    twice = pa.Table.from_pylist([row, row], schema=arrow_schema(ACTION_COUNTS))
    write_deltalake(uri, twice, mode="append")
    request = Request(
        table_uri=uri,
        table="action_counts",
        stream="action_counts",
        from_version=None,
        to_version=None,
        suite_file=CHECKOUT / "include" / "quality" / "action_counts.yaml",
        results_uri=f"file://{tmp_path}/tables/quality_results",
        docs_uri=f"file://{tmp_path}/quality/docs",
        run_id="private",
    )
    with caplog.at_level("INFO"):
        outcomes = validate(lambda: spark, request)
    failed = {outcome.expectation.name for outcome in outcomes if not outcome.success}
    assert {"user_id_is_unique", "action_count_begins_with_one"} <= failed

    masked = mask(SECRET, person)
    files = [path for path in (tmp_path / "quality").rglob("*") if path.is_file()]
    pages = {path: path.read_text(errors="replace") for path in files}
    assert [path for path, text in pages.items() if person in text] == []
    assert any(masked in text for path, text in pages.items() if path.suffix == ".html")
    for name in ("quality_results", "quality_validations", "quarantine"):
        rows = DeltaTable(f"file://{tmp_path}/tables/{name}").to_pyarrow_table().to_pylist()
        text = json.dumps(rows, default=str)
        assert person not in text, name
        assert masked in text or name == "quality_validations"
    assert person not in caplog.text + "".join(capfd.readouterr())
    assert {entry["copies"] for entry in _entries(tmp_path) if entry["row_hash"]} == {2}
    register_valid(spark, f"file://{tmp_path}/tables", "action_counts", "action_counts")
    assert spark.table("action_counts_valid").count() == 0


@ci_full
def test_an_id_that_is_made_from_a_persons_value_is_in_nothing_that_people_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWARD_MASK_SECRET", SECRET)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    made = row_id("203.0.113.7", int(began.timestamp() * 1000), "e1")
    uri = f"file://{tmp_path}/tables/sessions"
    SESSIONS.create(uri)
    BATCH_COUNTS.create(f"file://{tmp_path}/tables/batch_counts")
    row = {"session_id": made, "user_id": "203.0.113.7", "started_at": began, "close_reason": "BORED"}
    write_deltalake(uri, pa.Table.from_pylist([row, row], schema=arrow_schema(SESSIONS)), mode="append")
    request = Request(
        table_uri=uri,
        table="sessions",
        stream="user_sessions",
        from_version=None,
        to_version=None,
        suite_file=CHECKOUT / "include" / "quality" / "sessions.yaml",
        results_uri=f"file://{tmp_path}/tables/quality_results",
        docs_uri=f"file://{tmp_path}/quality/docs",
        run_id="ids",
    )
    left = tmp_path / "quality" / "docs" / "validations" / "sessions" / "of an earlier release.html"
    left.parent.mkdir(parents=True)
    left.write_text(made)
    failed = {one.expectation.name: one for one in validate(lambda: spark, request) if not one.success}
    assert mask(SECRET, made) in failed["session_id_is_unique"].observed

    files = [path for path in (tmp_path / "quality").rglob("*") if path.is_file()]
    assert [path for path in files if made in path.read_text(errors="replace")] == []
    assert not left.exists()
    for name in ("quality_results", "quarantine"):
        rows = DeltaTable(f"file://{tmp_path}/tables/{name}").to_pyarrow_table().to_pylist()
        assert made not in json.dumps(rows, default=str), name
        assert {entry["masked_columns"] for entry in rows} == {'["session_id", "user_id"]'}
    assert DeltaTable(uri).to_pyarrow_table()["session_id"].to_pylist() == [made, made]
    register_valid(spark, f"file://{tmp_path}/tables", "user_sessions", "sessions")
    assert spark.table("sessions_valid").count() == 0


def _entries(folder: Path) -> list[dict[str, Any]]:
    return list(DeltaTable(f"file://{folder}/tables/quarantine").to_pyarrow_table().to_pylist())
