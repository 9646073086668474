"""Carries out a verb of `stateward state` as a task, and links to its result page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from include import batch_job
from include.control.launch import LaunchError, master_of
from include.platform.jars import JarsMissingError
from include.settings import Settings
from include.spec import SpecError, StreamSpec, load_spec
from include.state.request import Operation, prepare
from include.state.verbs import Verb, VerbError, verb_of

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey

_LINK_KEY = "result_page"
# A part that tells of each of its files would fill the log.
_QUIET_S = 5.0


class ResultPageLink(BaseOperatorLink):
    """The button that opens the page of this very operation."""

    name = "Result page"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's path on this server, or nothing when none was written."""
        from airflow.sdk.execution_time.xcom import XCom

        return str(XCom.get_value(ti_key=ti_key, key=_LINK_KEY) or "")


def field_parameter(verb: str, field: str) -> str:
    """Name the parameter of a verb's field in the form."""
    return f"{verb}_{field}"


def given_fields(verb: Verb, params: Mapping[str, Any]) -> dict[str, Any]:
    """The verb's fields out of the form's parameters; those of other verbs do not count."""
    names = {field.name: field_parameter(verb.name, field.name) for field in verb.fields}
    return {name: params[parameter] for name, parameter in names.items() if parameter in params}


class StateOperationOperator(BaseOperator):
    """Runs the verb that the form asks for, on the stream that it names.

    The job runs in the foreground, and ends with its task. A refusal fails without a retry: nothing was
    changed, and the text says what to do.
    """

    operator_extra_links = (ResultPageLink(),)

    def execute(self, context: Context) -> list[str]:
        """Run the verb to its end.

        Returns:
            What it says.

        Raises:
            AirflowFailException: It was refused, or found something to be wrong or different.
            AirflowException: It could not be done.
        """
        settings, params = Settings(), context["params"]
        try:
            verb, spec = verb_of(params["verb"]), load_spec(params["stream"], settings.streams)
            operation = prepare(
                verb,
                spec,
                settings,
                given_fields(verb, params),
                now=datetime.now(UTC),
                dry_run=bool(params["dry_run"]) and verb.has_dry_run,
            )
            command = operation.command(spec, settings, master_of(spec) if verb.needs_spark else "")
        except (SpecError, VerbError, LaunchError, JarsMissingError) as error:
            raise AirflowFailException(str(error)) from error
        self.log.info("Operation %s of %s, log %s", operation.id, spec.stream, operation.log)
        try:
            good = self._run(command, operation, spec, settings)
        except batch_job.JobError as error:
            raise _judged(operation, error) from error
        finally:
            self._link(context, operation, settings)
        lines = list((operation.result() or {}).get("lines", ()))
        for line in lines:
            self.log.info("%s", line)
        if not good:
            raise AirflowFailException(" ".join(lines))
        return lines

    def _run(self, command: list[str], operation: Operation, spec: StreamSpec, settings: Settings) -> bool:
        variables = batch_job.environment(settings, spec.stream)
        told = _Told(lambda part, what: self.log.info("%s: %s", part, what))
        return batch_job.run(command, variables, operation.log, told.report)

    def _link(self, context: Context, operation: Operation, settings: Settings) -> None:
        if operation.result() is not None:
            base_path = urlsplit(settings.airflow_url).path.rstrip("/")
            context["ti"].xcom_push(key=_LINK_KEY, value=f"{base_path}{operation.page_path}")


def _judged(operation: Operation, error: batch_job.JobError) -> AirflowException:
    """The failure of the task: a refusal would be the same again."""
    result = operation.result()
    if result is not None and result["state"] == "refused":
        return AirflowFailException(result["message"])
    return AirflowException(str(error))


class _Told:
    """Steps as lines of the task's log: each part, and not each of its files."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._part = ""
        self._at = 0.0

    def report(self, part: str, what: str) -> None:
        """Take a step."""
        now = time.monotonic()
        if part == self._part and what != "ready" and now - self._at < _QUIET_S:
            return
        self._part, self._at = part, now
        self._say(part, what)
