"""The task that recomputes a stream's rows from its raw events and compares its tables with them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from stateward.airflow.compat import AirflowException, AirflowFailException, AirflowSkipException
from stateward.airflow.operators.deploy_stream import dag_run_of
from stateward.airflow.spark_submit import master_of
from stateward.contract.names import ENV_MASK_SECRET, LATE_EVENTS, RAW_EVENTS
from stateward.contract.storage import read_json, write_json
from stateward.control.jobs import batch_job
from stateward.control.jobs.backfill_request import (
    NotReplayableError,
    RangeError,
    build_request,
    parse_moment,
)
from stateward.control.jobs.backfill_verdict import verdict_of
from stateward.control.jobs.backfill_window import window
from stateward.control.launchers.driver_process import LaunchError
from stateward.platform.mask_secret import mask_secret
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import SpecError, StreamSpec, load_spec

if TYPE_CHECKING:
    from airflow.sdk import Context


class ReconcileStreamOperator(BaseOperator):
    """Runs the batch job of `stateward backfill --compare`, and fails or succeeds by its report.

    The job runs in the foreground and ends with its task, as those of state operations do: it takes minutes,
    changes only tables of its own, and runs again when its worker dies. Deferring it would need another owner
    of the process, which is worth it for a stream but not for this job.

    Never touches the stream or its tables.

    Args:
        stream: The stream.
    """

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the job to its end.

        Returns:
            The number of rows compared, by table.

        Raises:
            AirflowFailException: A row differs and only an error can be the reason, or the request is
                invalid.
            AirflowSkipException: There is nothing to compare yet, or rows differ that may be right.
            AirflowException: The job failed; a retry may succeed.
        """
        settings = Settings()
        try:
            spec = load_spec(self.stream, settings.streams)
            request = self._request(context, spec, settings)
            self._require_tables(settings, spec)
            self._run(spec, settings, request)
        except (SpecError, RangeError, NotReplayableError, LaunchError) as error:
            raise AirflowFailException(str(error)) from error
        except batch_job.JobError as error:
            raise AirflowException(str(error)) from error
        report = read_json(request["report_uri"])
        if report is None:
            raise AirflowException(
                f"stream {self.stream}: the job ended well, and wrote no report to {request['report_uri']};"
                f" see its log {Layout.of(settings).reconciliation_log(self.stream)}"
            )
        return self._judged(report)

    def _request(self, context: Context, spec: StreamSpec, settings: Settings) -> dict[str, Any]:
        begin, end = asked_window(context, spec)
        self.log.info("Reconciling %s from %s to %s", self.stream, begin.isoformat(), end.isoformat())
        return build_request(
            spec,
            settings,
            begin,
            end,
            into=Layout.of(settings).reconciliation_uri(self.stream),
            compare=True,
            run_id=f"{dag_run_of(context)}/{context['ti'].try_number}",
        )

    def _require_tables(self, settings: Settings, spec: StreamSpec) -> None:
        from deltalake import DeltaTable

        layout = Layout.of(settings)
        for name in (RAW_EVENTS, *spec.tables, LATE_EVENTS):
            if not DeltaTable.is_deltatable(layout.table_uri(name)):
                writer = RAW_EVENTS if name == RAW_EVENTS else self.stream
                raise AirflowSkipException(
                    f"stream {self.stream}: there is no table at {layout.table_uri(name)} yet, so there is"
                    f" nothing to compare; it appears when the stream {writer} starts."
                )

    def _run(self, spec: StreamSpec, settings: Settings, request: dict[str, Any]) -> None:
        mark = f"reconcile/{self.stream}"
        request_uri = f"{request['into_uri']}/request.json"
        command = batch_job.spark_command(
            "backfill",
            request_uri,
            kind="reconciliation",
            name=f"reconcile {self.stream}",
            spec=spec,
            settings=settings,
            master=master_of(spec),
        )
        batch_job.end_left_over(settings, mark)
        write_json(request_uri, request)
        log = Layout.of(settings).reconciliation_log(self.stream)
        log.parent.mkdir(parents=True, exist_ok=True)
        variables = batch_job.environment(settings, self.stream, mark)
        variables[ENV_MASK_SECRET] = mask_secret(settings)
        batch_job.run(command, variables, log, lambda part, what: self.log.info("%s: %s", part, what))

    def _judged(self, report: dict[str, Any]) -> dict[str, Any]:
        verdict = verdict_of(report)
        if verdict.kind == "wrong":
            raise AirflowFailException(verdict.text)
        if verdict.kind == "open":
            raise AirflowSkipException(verdict.text)
        self.log.info("%s", verdict.text)
        for note in verdict.notes:
            self.log.warning("Note: %s", note)
        return {entry["table"]: entry["compared"] for entry in report["tables"]}


def asked_window(context: Context, spec: StreamSpec) -> tuple[datetime, datetime]:
    """Return the range that the form asks for, or the days before the run.

    Raises:
        RangeError: The form has a value that is no time.
    """
    params, run = context["params"], context["dag_run"]
    begin, end = (parse_moment(params[name], name) if params.get(name) else None for name in ("from", "to"))
    return window(begin, end, run_at=run.logical_date or run.run_after, days=spec.reconciliation.days)
