"""Validates a stream's table as a Spark job, and links to the report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from include.layout import Layout
from include.operators.quality_links import QualityOverviewLink
from include.operators.quality_report import QualityReport, read_report
from include.settings import CHECKOUT, Settings

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey

_LINK_KEY = "data_docs"
_APPLICATION = CHECKOUT / "spark_jobs" / "quality" / "validate.py"
_SUITES = CHECKOUT / "include" / "quality"

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # A validation is over before the optimising compiler and a parallel collector pay for themselves: they
    # take a third of the job's CPU time, from the stream that runs beside it.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "4",
    # Delta's default of 50 tasks to read a log is made for large tables.
    "spark.databricks.delta.snapshotPartitions": "2",
}


class DataDocsLink(BaseOperatorLink):
    """The button that opens the report of this very validation."""

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the report's path on this server, or nothing when none was written."""
        from airflow.sdk.execution_time.xcom import XCom

        return str(XCom.get_value(ti_key=ti_key, key=_LINK_KEY) or "")


class ValidateTableOperator(SparkSubmitOperator):
    """Runs a suite on one version of a table, by the Spark connection.

    Fails with `AirflowFailException`, and so without a retry, when an expectation does not hold; fails with a
    retry when the validation could not be done; skips when there is no table yet. Never touches the stream.

    Args:
        stream: the stream that writes the table.
        table: the table's name.
        suite: name of the suite in `include/quality`.
    """

    operator_extra_links = (DataDocsLink(), QualityOverviewLink())

    def __init__(self, *, stream: str, table: str, suite: str, **kwargs: Any) -> None:
        kwargs.setdefault("name", f"quality {stream}")
        super().__init__(application=str(_APPLICATION), conf=dict(_CONF), **kwargs)
        self.stream = stream
        self.table = table
        self.suite = suite

    def execute(self, context: Context) -> None:
        """Submit the job and judge by the results it wrote.

        Raises:
            AirflowFailException: at least one expectation does not hold.
            AirflowSkipException: the table does not exist yet.
            AirflowException: the validation could not be done.
        """
        settings = Settings()
        layout = Layout.of(settings)
        self._skip_without_table(layout.table_uri(self.table))
        ti = context["ti"]
        run_id = f"{ti.dag_id}/{ti.run_id}/{ti.try_number}"
        self._prepare(settings, requested_version(context), run_id)
        results_uri = layout.table_uri("quality_results")
        try:
            super().execute(context)
        except AirflowException:
            # The submit fails for a failed expectation too; what it wrote tells the two apart.
            report = read_report(results_uri, self.stream, run_id)
            if report is None or not report.failed:
                raise
        else:
            report = read_report(results_uri, self.stream, run_id)
        self._judge(context, report, settings.airflow_url, run_id)

    def _judge(self, context: Context, report: QualityReport | None, airflow_url: str, run_id: str) -> None:
        if report is None:
            raise AirflowException(
                f"{self.stream}: the Spark job ended well, but wrote no results for {run_id}. See its log."
            )
        base_path = urlsplit(airflow_url).path.rstrip("/")
        context["ti"].xcom_push(key=_LINK_KEY, value=f"{base_path}{report.url_path}")
        if report.failed:
            raise AirflowFailException(report.message(airflow_url))
        self.log.info(
            "%s: all %d expectations hold for %s at version %d",
            self.stream,
            report.expectations,
            self.table,
            report.version,
        )

    def _skip_without_table(self, uri: str) -> None:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(uri):
            raise AirflowSkipException(
                f"{self.stream}: there is no table at {uri} yet; it appears with the stream's first batch."
            )

    def _prepare(self, settings: Settings, version: int | None, run_id: str) -> None:
        layout = Layout.of(settings)
        self.jars = ",".join(str(path) for path in sorted((settings.jars / "spark").glob("*.jar")))
        # The environment's own interpreter and spark-submit; others on the machine lack the libraries.
        binaries = str(Path(sys.executable).parent)
        self.env_vars = {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": str(CHECKOUT),
            "PATH": os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)]),
        }
        arguments = {
            "--stream": self.stream,
            "--table": self.table,
            "--table-uri": layout.table_uri(self.table),
            "--version": "latest" if version is None else str(version),
            "--suite-file": str(_SUITES / f"{self.suite}.yaml"),
            "--results-uri": layout.table_uri("quality_results"),
            "--docs-dir": layout.data_docs_uri,
            "--run-id": run_id,
        }
        self.application_args = [part for pair in arguments.items() for part in pair]


def requested_version(context: Context) -> int | None:
    """Return the version asked for: by the run's parameter, else by the asset event; None for the latest."""
    version = context["params"].get("version")
    if version is not None:
        return int(version)
    versions = [
        int(event.extra["payload"]["version"])
        for events in context["triggering_asset_events"].values()
        for event in events
        if "version" in (event.extra.get("payload") or {})
    ]
    return max(versions, default=None)
