"""Validates a stream's table as a Spark job, and links to the report."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperatorLink

from stateward.airflow.compat import AirflowException, AirflowFailException, AirflowSkipException
from stateward.airflow.notifiers.dispatcher import Dispatcher
from stateward.airflow.operators.incident_reporting import report_table
from stateward.airflow.operators.quality_report import QualityReport, read_report
from stateward.airflow.operators.valid_asset import announce, valid_asset
from stateward.airflow.operators.validation_params import Asked, is_wanted, requested
from stateward.airflow.shared_job import queue_of, run_or_wait
from stateward.airflow.spark_submit import master_at
from stateward.contract.names import ENV_MASK_SECRET, QUALITY_RESULTS
from stateward.control.jobs.job_resources import submitted
from stateward.control.launchers.driver_process import LaunchError
from stateward.control.launchers.executor_dependencies import cluster_conf
from stateward.control.launchers.launch import spark_jars
from stateward.control.launchers.local_jvm import local_jvm_conf
from stateward.platform.mask_secret import mask_secret
from stateward.project.layout import Layout
from stateward.project.settings import LIBRARY, Settings, library_path
from stateward.project.spec import SHARED, SpecError, load_spec
from stateward.rendering import page_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey

_LINK_KEY = "data_docs"
_APPLICATION = LIBRARY / "quality" / "validation" / "validate.py"

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # A validation ends before the optimising compiler and a parallel collector pay off: they would take a
    # third of the job's CPU time from the stream that runs beside it.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError",
    "spark.sql.shuffle.partitions": "4",
    # Delta's default of 50 tasks to read a log is meant for large tables.
    "spark.databricks.delta.snapshotPartitions": "2",
}


class DataDocsLink(BaseOperatorLink):
    """The button that opens the report of this validation."""

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the report's path on this server; empty without a report."""
        from airflow.sdk.execution_time.xcom import XCom

        return str(XCom.get_value(ti_key=ti_key, key=_LINK_KEY) or "")


class QualityOverviewLink(BaseOperatorLink):
    """The button that opens the table's page, with pass rates, trends and failures over time."""

    name = "Quality overview"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's path on this server."""
        page = page_address.table(operator.stream, operator.table)
        return page_address.on_server(Settings().airflow_url, page)


class ValidateTableOperator(SparkSubmitOperator):
    """Runs the suite of a table on versions that are due or requested, by the Spark connection.

    The job is submitted in client mode, and ends with its task. In its first attempt it also validates the
    tables of later tasks of the run, which then start no Spark and only judge what it has found. While such a
    job runs on the host, with the same connection and configuration, tasks of other runs hand it their
    validations in place of a job of their own.

    Fails with `AirflowFailException`, and so without a retry, when a critical expectation fails; another one
    is a warning. Without a critical failure it updates the asset `<stream>.<table>.valid`, on which
    downstream DAGs are scheduled. Fails with a retry when the job fails; skips when there is no table yet, or
    when the run is about another one. Never touches the stream.

    Args:
        stream: the stream that writes the table.
        table: the table's name, and that of its suite in `include/quality`.
        conn_id: the Airflow connection that names the master.
        later: tables of the DAG's tasks after this one.
    """

    operator_extra_links = (DataDocsLink(), QualityOverviewLink())

    def __init__(
        self,
        *,
        stream: str,
        table: str,
        conn_id: str = "spark_default",
        later: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", f"quality {stream} {table}")
        kwargs.setdefault("outlets", [valid_asset(stream, table)])
        # Whatever the connection says for drivers of streams, which outlive their tasks.
        kwargs["deploy_mode"] = "client"
        super().__init__(application=str(_APPLICATION), conf=dict(_CONF), conn_id=conn_id, **kwargs)
        self.connection = conn_id
        self.stream = stream
        self.table = table
        self.later = tuple(later)
        self._variables: dict[str, str] = {}

    def execute(self, context: Context) -> None:
        """Submit the job and read the results that it wrote.

        Raises:
            AirflowFailException: at least one critical expectation failed, there are no JARs of Spark, no
                such connection, no valid YAML of the stream or of batch jobs, or the executors cannot get
                their code or environment.
            AirflowSkipException: the table does not exist yet.
            AirflowException: the job failed.
        """
        settings = Settings()
        layout = Layout.of(settings)
        asked = requested(context, self.table)
        if not is_wanted(context, self.table):
            raise AirflowSkipException(f"{self.stream}: this run is not about {self.table}.")
        self._skip_without_table(layout.table_uri(self.table))
        ti = context["ti"]
        run_id = f"{ti.dag_id}/{ti.run_id}/{ti.try_number}"
        # An earlier task of the run may have validated the table with its own.
        report = read_report(layout, self.stream, self.table, run_id)
        if report is None:
            self._prepare(settings)
            arguments = self._arguments(settings, self._together(context, layout, run_id), asked, run_id)
            report = self._validated(context, layout, run_id, arguments)
        ti.xcom_push(key=_LINK_KEY, value=page_address.on_server(settings.airflow_url, report.address))
        if asked.to_version is None:
            # A validation of past versions says nothing about the current state.
            dispatcher = Dispatcher(self.stream, f"{ti.dag_id}/{ti.run_id}", context, settings, self.table)
            report_table(dispatcher, report.judged(datetime.now(UTC)))
        self._judge(context, report, settings.airflow_url)

    def _validated(
        self, context: Context, layout: Layout, run_id: str, arguments: list[str]
    ) -> QualityReport:
        queue = queue_of(layout.home, self.connection, self.conf or {}, self.jars or "")
        submit = partial(self._submit, context)
        try:
            run_or_wait(queue, arguments, datetime.now(UTC), submit, self._log_that_it_waits)
        except AirflowException:
            # The job also fails for a failed expectation or another table; its results tell them apart.
            if report := read_report(layout, self.stream, self.table, run_id):
                return report
            raise
        if report := read_report(layout, self.stream, self.table, run_id):
            return report
        raise AirflowException(
            f"{self.stream}: the Spark job ended, but wrote no results of {self.table} for {run_id}. See its"
            " log: that of this task, or of the validation that ran when this task began to wait."
        )

    def _submit(self, context: Context, arguments: list[str]) -> None:
        self.application_args = arguments
        super().execute(context)

    def _log_that_it_waits(self) -> None:
        self.log.info(
            "%s: a Spark job validates other tables on this host, and %s next", self.stream, self.table
        )

    def _together(self, context: Context, layout: Layout, run_id: str) -> list[str]:
        """Return the tables of the job: this one, and those that later tasks of the run would validate."""
        # A task that is retried or was cleared validates again, but only its own table.
        later = self.later if context["ti"].try_number == 1 else ()
        return [self.table, *(one for one in later if self._is_due(context, layout, one, run_id))]

    def _is_due(self, context: Context, layout: Layout, table: str, run_id: str) -> bool:
        from deltalake import DeltaTable

        return (
            is_wanted(context, table)
            and DeltaTable.is_deltatable(layout.table_uri(table))
            and read_report(layout, self.stream, table, run_id) is None
        )

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook()
        # With YARN and Kubernetes the provider makes arguments of `env_vars`, which all users can read.
        hook._env = self._variables
        return hook

    def _judge(self, context: Context, report: QualityReport, airflow_url: str) -> None:
        if report.critical:
            raise AirflowFailException(report.message(airflow_url))
        announce(context, report)
        if report.failed:
            self.log.warning("%s", report.message(airflow_url))
            return
        self.log.info(
            "%s: all %d expectations hold for %s, versions %d to %d",
            self.stream,
            report.expectations,
            self.table,
            report.from_version,
            report.version,
        )

    def _skip_without_table(self, uri: str) -> None:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(uri):
            raise AirflowSkipException(
                f"{self.stream}: there is no table at {uri} yet; it appears with the stream's first batch."
            )

    def _spark_conf(self, settings: Settings) -> dict[str, str]:
        spec = None if self.stream == SHARED else load_spec(self.stream, settings.streams)
        master = master_at(self.connection, f"stream {self.stream}")
        given = submitted("validation", spec, settings, master)
        conf = {**_CONF, "spark.driver.memory": given.driver_memory, **given.conf}
        return {
            **conf,
            **local_jvm_conf(settings.jars, master, conf),
            **cluster_conf(settings, master, conf),
        }

    def _prepare(self, settings: Settings) -> None:
        try:
            self.jars = spark_jars(settings)
            self.conf = self._spark_conf(settings)
        except (LaunchError, SpecError) as error:
            raise AirflowFailException(str(error)) from error
        # The interpreter and spark-submit of this environment; others lack the libraries.
        binaries = str(Path(sys.executable).parent)
        self._variables = {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join((str(settings.jobs.parent), *library_path())),
            "PATH": os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)]),
            ENV_MASK_SECRET: _never_logged(mask_secret(settings)),
        }

    def _arguments(self, settings: Settings, tables: Sequence[str], asked: Asked, run_id: str) -> list[str]:
        layout = Layout.of(settings)
        common = {
            "--stream": self.stream,
            "--from-version": "next" if asked.from_version is None else str(asked.from_version),
            "--to-version": "latest" if asked.to_version is None else str(asked.to_version),
            "--results-uri": layout.table_uri(QUALITY_RESULTS),
            "--docs-uri": layout.data_docs_uri,
            "--run-id": run_id,
        }
        arguments = [part for pair in common.items() for part in pair]
        for table in tables:
            suite = str(settings.suites / f"{table}.yaml")
            of_table = ("--table", table, "--table-uri", layout.table_uri(table), "--suite-file", suite)
            arguments += of_table
        return arguments


def _never_logged(secret: str) -> str:
    # Spark prints parts of an environment when a process does not start.
    from airflow.sdk.log import mask_secret as keep_out_of_logs

    keep_out_of_logs(secret)
    return secret
