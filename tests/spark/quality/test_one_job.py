"""Several tables in one job have the results and Data Docs that a job for each of them makes."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from spark_jobs.fraud_watch.declaration import FRAUD_ALERTS, FRAUD_SUMMARIES
from stateward.contract.job_queue import JobQueue
from stateward.quality.validation import validate
from stateward.quality.validation.request import parse_requests
from tests.support.spark.launches import CHECKOUT
from tests.support.spark.written_batches import Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = (FRAUD_ALERTS.name, FRAUD_SUMMARIES.name)
SUITES = CHECKOUT / "include" / "quality"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Texts that differ from one validation to the next: times, and identifiers of Great Expectations.
_OF_THE_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d[\d:.TZ+_-]*")


@dataclass
class Jobs:
    """Runs jobs in the session of the tests, on tables in a folder."""

    home: Path

    def run(self, *tables: str, suites: Path = SUITES, queue: Path | None = None) -> int:
        """Validate tables, and then what is in the queue."""
        more = [] if queue is None else ["--queue", str(queue)]
        return validate.main([*self.command(*tables, suites=suites), *more])

    def command(self, *tables: str, suites: Path = SUITES, run_id: str = "run/1") -> list[str]:
        argv = ["--stream", "fraud_watch", "--run-id", run_id, "--docs-uri", f"file://{self.home}/docs"]
        argv += ["--results-uri", f"file://{self.home}/tables/quality_results"]
        for table in tables:
            uri = f"file://{self.home}/tables/{table}"
            argv += ["--table", table, "--table-uri", uri, "--suite-file", f"{suites}/{table}.yaml"]
        return argv

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Its rows without what differs from one validation to the next."""
        changing = {"validated_at", "quarantined_at", "as_of", "docs_path", "arguments", "reads", "baseline"}
        rows = DeltaTable(str(self.home / "tables" / table)).to_pyarrow_table().to_pylist()
        return sorted(({k: v for k, v in row.items() if k not in changing} for row in rows), key=str)

    def pages(self) -> dict[str, str]:
        """The text of every page but the index, by its path."""
        docs = self.home / "docs"
        return {
            _OF_THE_RUN.sub("", str(page.relative_to(docs))): _OF_THE_RUN.sub("", page.read_text())
            for page in docs.rglob("*.html")
            if page.name != "index.html"
        }


@pytest.fixture
def jobs(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Two tables with bad rows."""
    monkeypatch.setenv("STATEWARD_MASK_SECRET", "a secret of a test")
    monkeypatch.setattr(validate, "session_of", lambda stream: lambda: spark)
    home = tmp_path / "together"
    alerts = Written(home, FRAUD_ALERTS, "fraud_watch")
    alerts.batch([{"alert_id": f"a{n}", "account_id": "x", "raised_at": NOW} for n in (1, 2, 2)])
    summaries = Written(home, FRAUD_SUMMARIES, "fraud_watch")
    summaries.batch([{"account_id": name} for name in ("x", "y", "y")])
    return Jobs(home)


def test_two_tables_in_one_job_have_the_results_and_pages_of_two_jobs(
    jobs: Jobs, spark: SparkSession
) -> None:
    apart = Jobs(jobs.home.parent / "apart")
    shutil.copytree(jobs.home, apart.home)
    before = spark.conf.get("spark.sql.adaptive.enabled")

    assert jobs.run(*TABLES) == 2
    assert spark.conf.get("spark.sql.adaptive.enabled") == before
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()
    for table in reversed(TABLES):
        assert apart.run(table) == 2

    for table in ("quality_results", "quality_validations", "quarantine"):
        assert {row["table"] for row in jobs.rows(table)} == {*TABLES}
        assert jobs.rows(table) == apart.rows(table)
    assert jobs.pages() == apart.pages()
    index = (jobs.home / "docs" / "index.html").read_text()
    assert all(row["docs_path"] in index for row in _records(jobs))


def _records(jobs: Jobs) -> list[dict[str, Any]]:
    return list(DeltaTable(str(jobs.home / "tables" / "quality_validations")).to_pyarrow_table().to_pylist())


def test_the_other_tables_are_validated_when_one_validation_fails(
    jobs: Jobs, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(SUITES, tmp_path / "suites")
    (tmp_path / "suites" / f"{TABLES[0]}.yaml").write_text("none of a suite")
    assert jobs.run(*TABLES, suites=tmp_path / "suites") == 1
    assert [row["table"] for row in jobs.rows("quality_validations")] == [TABLES[1]]
    assert f"fraud_watch: {TABLES[0]}: " in caplog.text + capsys.readouterr().out


def test_a_job_takes_further_commands_and_answers_for_its_own(
    jobs: Jobs, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = JobQueue(tmp_path / "queue")
    queue.put(["--table", "of an earlier release"], NOW)
    waiting = queue.put(jobs.command(TABLES[1], run_id="run/of another task"), NOW + timedelta(seconds=1))
    (tmp_path / f"{TABLES[0]}.yaml").write_text("none of a suite")
    # Its own table fails technically, the other one has failed expectations.
    assert jobs.run(TABLES[0], suites=tmp_path, queue=queue.folder) == 1
    assert waiting.is_done()
    assert [row["run_id"] for row in _records(jobs)] == ["run/of another task"]
    assert "expected the arguments of a validation, found others" in caplog.text + capsys.readouterr().out


def test_a_range_of_versions_is_of_one_table(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--stream", "s", "--run-id", "r", "--docs-uri", "d", "--results-uri", "r", "--to-version", "3"]
    of_a_table = ["--table", "t", "--table-uri", "u", "--suite-file", "f"]
    assert parse_requests([*given, *of_a_table])[0][0].to_version == 3
    for argv in ([*given, *of_a_table, *of_a_table], [*given, *of_a_table, "--table", "t"]):
        with pytest.raises(SystemExit):
            parse_requests(argv)
    assert "expected one table for a range of versions" in capsys.readouterr().err
