"""Carries out a verb of `stateward state` as a task, and links to its result page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.log import mask_secret as keep_out_of_logs

from stateward.airflow.compat import AirflowException, AirflowFailException, AirflowSkipException
from stateward.airflow.kafka_connection import with_kafka
from stateward.airflow.operators.operation_params import CANNOT, Asked, asked_of, failed
from stateward.airflow.spark_submit import master_of
from stateward.contract.names import ENV_MASK_SECRET
from stateward.contract.process_output import READY
from stateward.control.jobs import batch_job
from stateward.control.jobs.operation_request import Operation
from stateward.control.jobs.verbs import VERBS, Verb, verb_of
from stateward.platform.mask_secret import mask_secret
from stateward.project.settings import Settings
from stateward.rendering.page_address import on_server

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey

RESULT_PAGE = "result_page"
"""XCom key of the path of the result page on Airflow's server."""

# A line for each file would fill the log.
_QUIET_S = 5.0


class ResultPageLink(BaseOperatorLink):
    """The button that opens the page of this operation."""

    name = "Result page"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's path on this server; empty without a page."""
        from airflow.sdk.execution_time.xcom import XCom

        return str(XCom.get_value(ti_key=ti_key, key=RESULT_PAGE) or "")


class StateOperationOperator(BaseOperator):
    """Runs the form's verb on its stream.

    The job runs in the foreground, and ends with its task. A refusal fails without a retry: nothing was
    changed, and the text says what to do. A retry after a worker died continues the same operation, and does
    not repeat one that has ended.

    Args:
        asks: Fixed parameters, in place of those of the form.
        verb: The verb to run in place of the form's; with `given`.
        given: Its fields.
    """

    operator_extra_links = (ResultPageLink(),)

    def __init__(
        self,
        *,
        asks: Mapping[str, Any] | None = None,
        verb: str | None = None,
        given: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.asks = asks
        self.verb = verb
        self.given = given

    def execute(self, context: Context) -> list[str]:
        """Run the verb to its end.

        Returns:
            The verb's message.

        Raises:
            AirflowFailException: It was refused, or reports an error or a difference.
            AirflowException: It failed; a retry may succeed.
        """
        asked = asked_of(context, self.asks)
        verb, given = self.choose(asked)
        settings = Settings()
        try:
            settings = with_kafka(settings)
            operation = asked.operation(verb, given)
            command = operation.command(
                asked.spec, settings, master_of(asked.spec) if verb.needs_spark else ""
            )
        except CANNOT as error:
            raise failed(context, str(error)) from error
        self.log.info("Operation %s of %s, log %s", operation.id, asked.stream, operation.log)
        try:
            self._run(command, operation, asked.stream, settings)
        except batch_job.JobError as error:
            raise _judged(context, operation, error) from error
        finally:
            self._link(context, operation, settings)
        result = operation.result()
        if result is None:
            raise AirflowException(
                f"stream {asked.stream}: expected a result of {operation.id}, found none. Its log "
                f"{operation.log} says why."
            )
        lines = list(result["lines"])
        for line in lines:
            self.log.info("%s", line)
        if not result["good"]:
            raise failed(context, " ".join(lines))
        return lines

    def choose(self, asked: Asked) -> tuple[Verb, Mapping[str, Any]]:
        """Return the verb and its fields."""
        if self.verb is None:
            return asked.verb, asked.given
        return verb_of(self.verb), self.given or {}

    def _run(self, command: list[str], operation: Operation, stream: str, settings: Settings) -> None:
        batch_job.end_left_over(settings, operation.id)
        if (operation.result() or {}).get("state") == "done":
            self.log.info("An earlier try has completed it.")
            return
        operation.forget_result()
        variables = batch_job.environment(settings, stream, operation.id)
        if operation.verb.needs_secret:
            variables[ENV_MASK_SECRET] = mask_secret(settings)
            keep_out_of_logs(variables[ENV_MASK_SECRET])
        steps = _StepLog(lambda part, what: self.log.info("%s: %s", part, what))
        batch_job.run(command, variables, operation.log, steps.report)

    def _link(self, context: Context, operation: Operation, settings: Settings) -> None:
        if operation.result() is not None:
            page = on_server(settings.airflow_url, operation.page)
            context["ti"].xcom_push(key=RESULT_PAGE, value=page)


class InspectStateOperator(StateOperationOperator):
    """Runs read-only verbs and refuses all others, for people who may trigger only this DAG."""

    def choose(self, asked: Asked) -> tuple[Verb, Mapping[str, Any]]:
        """Return the form's verb if it is read-only."""
        if not asked.verb.only_looks:
            raise AirflowFailException(
                f"stream {asked.stream}: expected a verb that only looks, found {asked.verb.name}. Trigger "
                f"{Settings().dag_id(asked.verb.dag_id)} for it."
            )
        return asked.verb, asked.given


class CheckBeforeOperator(StateOperationOperator):
    """Checks an upgrade before the stream stops; skipped for other verbs."""

    def choose(self, asked: Asked) -> tuple[Verb, Mapping[str, Any]]:
        """Return the verdict on the current code and YAML."""
        if not (asked.stops_stream and asked.verb.watches_whole):
            raise AirflowSkipException(f"{asked.verb.name} checks what it needs itself")
        return VERBS["verdict"], {}


class SavepointBeforeOperator(StateOperationOperator):
    """Makes the savepoint for a rollback; skipped for verbs that need none."""

    def choose(self, asked: Asked) -> tuple[Verb, Mapping[str, Any]]:
        """A savepoint."""
        if not (asked.stops_stream and asked.verb.has_way_back):
            raise AirflowSkipException(f"{asked.verb.name} needs no savepoint before it")
        return VERBS["savepoint"], {"reason": f"before {asked.verb.name}, {asked.run}"}


class GoBackOperator(StateOperationOperator):
    """Restores the savepoint that the run has made."""

    def choose(self, asked: Asked) -> tuple[Verb, Mapping[str, Any]]:
        """Its restore."""
        made = asked.result(VERBS["savepoint"])
        if made is None:
            raise AirflowFailException(f"stream {asked.stream}: this run has made no savepoint to go back to")
        return VERBS["restore"], {"savepoint": made["data"]["savepoint"]}


def _judged(context: Context, operation: Operation, error: batch_job.JobError) -> AirflowException:
    """Return the task's failure; a refusal must not be retried."""
    result = operation.result()
    if result is not None and result["state"] == "refused":
        return failed(context, result["message"])
    failed(context, str(error))
    return AirflowException(str(error))


class _StepLog:
    """Log each part of a step, but not each of its files."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._part = ""
        self._at = 0.0

    def report(self, part: str, what: str) -> None:
        """Take a step."""
        now = time.monotonic()
        if part == self._part and what != READY and now - self._at < _QUIET_S:
            return
        self._part, self._at = part, now
        self._say(part, what)
