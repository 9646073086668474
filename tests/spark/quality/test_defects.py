"""Each defect is found by the expectation that says so, and found alike a hundred versions later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from spark_jobs.user_sessions.declaration import SESSIONS
from stateward.contract.names import ENV_MASK_SECRET
from stateward.quality.suites.suite import load_suite
from stateward.quality.validation.expectations import Outcome
from stateward.quality.validation.records import Records, Validation
from stateward.quality.validation.validate import validate
from tests.support.full import ci_full
from tests.support.spark.written_batches import Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
HISTORY = 11
SHARES = [0.0, 0.2, 0.8, 0, 0, 0, 0, 0, 0]
"""Shares of the lengths of sessions, by the bins of the suite."""


def session(number: int, **changes: Any) -> dict[str, Any]:
    """One session of a user of its own, of half an hour: longer than they have been."""
    started = changes.pop("started_at", START + timedelta(hours=number))
    length = changes.pop("length", timedelta(minutes=40))
    return {
        "session_id": f"s{number}",
        "user_id": f"u{number}",
        "started_at": started,
        "ended_at": started + length,
        "duration_ms": length // timedelta(milliseconds=1),
        "event_count": 3,
        "last_event_type": "view",
        "close_reason": "TIMEOUT",
        "closed_at": started + timedelta(hours=2),
    } | changes


@pytest.fixture(autouse=True)
def of_one_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its secret each validation masks in a way of its own, and none can be compared with another."""
    monkeypatch.setenv(ENV_MASK_SECRET, "a secret of a test")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A table with a history of sound validations, and then ten kinds of defects in three commits."""
    made = Written(tmp_path_factory.mktemp("defects"), SESSIONS, "user_sessions")
    for number in range(HISTORY):
        remember(made, made.batch([session(number), session(number + 100)]))
    sound = [session(number) for number in range(1000, 1520)]
    made.batch(
        [
            *sound,
            session(2000, session_id="s3"),
            session(2001, length=timedelta(milliseconds=-5)),
            session(2002, started_at=START),
            session(2003, started_at=START + timedelta(minutes=39), user_id="u2002"),
            session(2004, user_id=None),
            session(2005, started_at=datetime(2100, 1, 1, tzinfo=UTC)),
            session(2006, close_reason="BORED"),
        ]
    )
    made.batch([session(2007)], rows_out=2)
    DeltaTable(made.uri).delete("session_id = 's4'")
    late = datetime.now(UTC) + timedelta(minutes=20)
    made.count(batch_id=HISTORY + 9, rows_out=1, committed_at=late)
    return made


def remember(made: Written, version: int) -> None:
    """Put an earlier validation on record: of an hour with 6,000 sessions, but 80 in the last hour."""
    suite = load_suite(made.request("x").suite_file, made.table)
    lengths = next(one for one in suite.expectations if one.name == "session_lengths_are_as_usual")
    assert lengths.baseline
    partition = {"bins": list(lengths.baseline.bins), "weights": SHARES, "tail_weights": [0, 0]}
    validation = Validation(
        stream=made.stream,
        table=made.table.name,
        table_id=str(DeltaTable(made.uri).metadata().id),
        from_version=version if version > 1 else 0,
        version=version,
        run_id=f"r{version}",
        suite=suite.name,
        suite_digest=suite.digest,
        as_of=START,
        validated_at=START,
        is_range=True,
        rows=80 if version == HISTORY else 6000,
        table_rows=6000,
        seconds=3600,
        reads={},
        baseline={},
    )
    outcome = Outcome(lengths, True, "", None, None, {}, partition)
    Records(made.request("x").validations_uri, made.stream, made.table.name).write(validation, [outcome], "")


def results(made: Written, run_id: str) -> list[dict[str, Any]]:
    uri = made.request(run_id).results_uri
    return list(DeltaTable(uri).to_pyarrow_table(filters=[("run_id", "=", run_id)]).to_pylist())


def test_each_defect_is_found_by_the_expectation_that_says_so(written: Written, spark: SparkSession) -> None:
    outcomes = validate(lambda: spark, written.request("first"))
    failed = {outcome.expectation.name: outcome for outcome in outcomes if not outcome.success}
    assert set(failed) == {
        "session_id_is_unique",
        "duration_is_not_negative",
        "session_ends_after_its_start",
        "no_sessions_of_a_user_overlap",
        "user_id_is_present",
        "table_is_fresh",
        "rows_per_hour_are_as_usual",
        "session_lengths_are_as_usual",
        "rows_are_only_added",
        "nothing_is_from_the_future",
        "close_reason_is_known",
        "rows_are_those_that_were_counted",
    }, {name: outcome.observed for name, outcome in failed.items()}
    [row] = {(row["from_version"], row["table_version"], row["as_of"]) for row in results(written, "first")}
    assert row[:2] == (HISTORY + 1, written.version)
    assert failed["session_id_is_unique"].unexpected_count == 2
    assert failed["no_sessions_of_a_user_overlap"].unexpected_count == 1


@ci_full
def test_a_hundred_versions_later_the_range_gives_the_same_report(
    written: Written, spark: SparkSession
) -> None:
    first, last = HISTORY + 1, HISTORY + 3
    if not results_exist(written, "first"):
        validate(lambda: spark, written.request("first"))
    for number in range(3000, 3100):
        written.batch([session(number)])
    DeltaTable(written.uri).optimize.compact()
    validate(lambda: spark, written.request("again", first, last))

    then, again = ([comparable(row) for row in results(written, run)] for run in ("first", "again"))
    assert again == then
    assert page(written, "again") == page(written, "first")
    validations = DeltaTable(written.request("x").validations_uri).to_pyarrow_table().to_pylist()
    [repeated] = [row for row in validations if row["run_id"] == "again"]
    assert repeated["repeats"] == "first"
    assert repeated["covered_version"] == last


def results_exist(made: Written, run_id: str) -> bool:
    return DeltaTable.is_deltatable(made.request("x").results_uri) and bool(results(made, run_id))


def comparable(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in row if name not in ("run_id", "validated_at", "docs_path")}


def page(made: Written, run_id: str) -> str:
    """The page of a validation, without its name and its time stamps."""
    [path] = {row["docs_path"] for row in results(made, run_id)}
    text = Path(made.home, "docs", path).read_text(encoding="utf-8")
    text = re.sub(r"\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d:?\d\d[.\d]*(Z|[+-]\d\d:?\d\d)?", "TIME", text)
    text = re.sub(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", "ID", text)
    return text.replace(f"_{run_id}", "_RUN")
