"""What the tasks of a run of `state_<stream>` know of it, and leave for each other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from stateward.airflow.compat import AirflowFailException, AirflowSkipException
from stateward.contract.reading import InvalidDocumentError
from stateward.control.care.policy import Decision
from stateward.control.jobs.operation_request import operations_of_run
from stateward.control.jobs.verb_field import field_parameter
from stateward.control.jobs.verbs import CHANGING_DAG
from stateward.control.reconcile.effective_spec import spec_in_force
from stateward.control.reconcile.observe import read_control
from stateward.control.releases.release import upgrade_available
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import SpecError, StreamSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

DECISION = "decision"
"""XCom key of the decision, in the task `advise`."""

ANSWER = "answer"
"""XCom key of a person's answer, in the task `approve`: `approved` and `by`."""

TRIGGERED = "trigger_run_id"
"""XCom key of the run of `state_operations` that a task has triggered."""

_WATCH_S = 180
DECISION_JSON: TypeAdapter[Decision] = TypeAdapter(Decision)


def fixed_parameters(stream: str, verb: str, **fields: Any) -> dict[str, Any]:
    """Return the parameters of a state operation, in place of those of its form."""
    given = {field_parameter(verb, name): value for name, value in fields.items()}
    return {"stream": stream, "verb": verb, "dry_run": False, "watch_s": _WATCH_S, **given}


def decision_of(context: Context) -> Decision | None:
    """Return the decision of this run; None if its task was skipped or has failed."""
    document = context["ti"].xcom_pull(task_ids="advise", key=DECISION)
    return None if document is None else DECISION_JSON.validate_python(document)


def closes_at(context: Context, spec: StreamSpec) -> datetime:
    """Return when the window of this run closes."""
    opened: datetime = context["dag_run"].run_after
    return opened + spec.state_care.window


def spec_of(stream: str) -> StreamSpec:
    """Return a stream's YAML.

    Raises:
        AirflowFailException: It is missing or invalid, and there is none of an earlier launch.
    """
    try:
        return spec_in_force(stream, Settings())
    except (SpecError, InvalidDocumentError) as error:
        raise AirflowFailException(str(error)) from error


def require_open(context: Context, spec: StreamSpec) -> None:
    """Skip the task when the window has closed.

    Raises:
        AirflowSkipException: It has.
    """
    closes = closes_at(context, spec)
    if datetime.now(UTC) >= closes:
        raise AirflowSkipException(
            f"the window has closed at {closes:%Y-%m-%d %H:%M} UTC; nothing is changed"
        )


def is_outdated(spec: StreamSpec) -> bool:
    """Tell whether another release is deployed than the one that the stream runs with."""
    settings = Settings()
    control = read_control(Layout.of(settings), spec.stream)
    return bool(upgrade_available(control.release if control else None, spec, settings))


def operation_result(stream: str, triggered: str, verb: str) -> dict[str, Any] | None:
    """Return the result of a verb of a run of `state_operations`; None if it has none."""
    settings = Settings()
    made = operations_of_run(stream, settings, f"{settings.dag_id(CHANGING_DAG)}/{triggered}")
    return next((one.result() for one in made if one.verb.name == verb), None)
