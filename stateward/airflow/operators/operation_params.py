"""The parameters of a run of a state operation, read from its form by each of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.log import mask_secret

from stateward.airflow.compat import AirflowFailException
from stateward.airflow.kafka_connection import with_kafka
from stateward.airflow.operators.deploy_stream import dag_run_of
from stateward.contract.reading import InvalidDocumentError
from stateward.control.jobs.operation_request import Operation, find, other_stream, prepare
from stateward.control.jobs.verb_field import VerbError, field_parameter
from stateward.control.jobs.verbs import Verb, arguments_of, verb_of
from stateward.control.launchers.driver_process import LaunchError
from stateward.control.reconcile.effective_spec import spec_in_force
from stateward.project.settings import Settings
from stateward.project.spec import SpecError, StreamSpec, load_spec

if TYPE_CHECKING:
    from airflow.sdk import Context

REASON = "reason"
"""XCom key of the reason of a task's failure, for the last task of the run."""

CANNOT = (SpecError, VerbError, LaunchError, InvalidDocumentError)
"""Errors that a retry would raise again."""


@dataclass(frozen=True)
class Asked:
    """The parameters of one run.

    Attributes:
        verb: The verb.
        spec: The stream.
        given: The verb's fields.
        dry_run: Whether only to report what would happen.
        watch_s: Time in which the stream has to commit a batch afterwards, seconds.
        run: The DAG run, `<dag id>/<run id>`.
        at: When it was started; part of the operations' names, so that a retry finds its own operation.
    """

    verb: Verb
    spec: StreamSpec
    given: Mapping[str, Any]
    dry_run: bool
    watch_s: int
    run: str
    at: datetime

    @property
    def stream(self) -> str:
        """Its name."""
        return self.spec.stream

    @property
    def stops_stream(self) -> bool:
        """Whether the stream must not run meanwhile."""
        return self.verb.takes_lease and not self.dry_run

    def check(self) -> None:
        """Check the verb's fields.

        Raises:
            VerbError: A field is missing, unknown, or of another type.
            SpecError: A field names a stream whose YAML is missing or invalid, or the stream's own YAML is
                invalid and will be used to start it.
        """
        if not self.verb.keeps_release:
            load_spec(self.stream, Settings().streams)
        other_stream(self.verb, arguments_of(self.verb, self.given), Settings())

    def operation(self, verb: Verb, given: Mapping[str, Any]) -> Operation:
        """Store the request of an operation of this run; a retry stores the same one.

        Raises:
            VerbError: A field is missing, unknown, or of another type.
            SpecError: A field names a stream whose YAML is missing or invalid.
            LaunchError: The connection of Kafka cannot be used.
        """
        return prepare(
            verb,
            self.spec,
            with_kafka(Settings()),
            given,
            now=self.at,
            dry_run=self.dry_run and verb.has_dry_run,
            asked_by=self.run,
        )

    def result(self, verb: Verb) -> dict[str, Any] | None:
        """Return the result of this run's operation with that verb, if it has ended."""
        operation = find(verb, self.stream, Settings(), now=self.at, asked_by=self.run)
        result = operation.result() if operation else None
        return result if result is not None and result["state"] == "done" else None

    @property
    def has_changed(self) -> dict[str, Any] | None:
        """Return the result of this run's verb if it can be undone; None otherwise."""
        result = self.result(self.verb) if self.verb.has_way_back and self.stops_stream else None
        return result if result is not None and result["data"].get("changed", True) else None


def given_fields(verb: Verb, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verb's fields from the form's parameters."""
    names = {field.name: field_parameter(verb.name, field.name) for field in verb.fields}
    return {name: params[parameter] for name, parameter in names.items() if parameter in params}


def asked_of(context: Context, asks: Mapping[str, Any] | None) -> Asked:
    """Read the parameters of the run.

    Args:
        context: The task's context.
        asks: Fixed parameters, in place of those of the form.

    Raises:
        AirflowFailException: The verb, the stream or its YAML is invalid.
    """
    params, run = {**context["params"], **(asks or {})}, context["dag_run"]
    try:
        verb = verb_of(params["verb"])
        spec = spec_in_force(params["stream"], Settings())
    except (VerbError, SpecError, InvalidDocumentError) as error:
        raise AirflowFailException(str(error)) from error
    for field in verb.fields:
        value = params.get(field_parameter(verb.name, field.name))
        if field.is_secret and isinstance(value, str) and value:
            mask_secret(value)
    return Asked(
        verb=verb,
        spec=spec,
        given=given_fields(verb, params),
        dry_run=bool(params["dry_run"]) and verb.has_dry_run,
        watch_s=int(params["watch_s"]),
        run=dag_run_of(context),
        at=run.start_date or datetime.now(UTC),
    )


def failed(context: Context, reason: str) -> AirflowFailException:
    """Store the reason for the run's last task, and return the exception to raise."""
    context["ti"].xcom_push(key=REASON, value=reason)
    return AirflowFailException(reason)
