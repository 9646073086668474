"""The tasks that ask a person, and that change something by runs of `state_operations`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from stateward.airflow.care.context import (
    ANSWER,
    closes_at,
    decision_of,
    fixed_parameters,
    is_outdated,
    require_open,
    spec_of,
)
from stateward.airflow.compat import AirflowFailException, AirflowSkipException, is_paused, limit_response
from stateward.airflow.operators.deploy_stream import dag_run_of
from stateward.airflow.operators.state_operation import RESULT_PAGE
from stateward.contract.state_care import Change
from stateward.control.care.policy import Proposal
from stateward.control.care.record import add_change
from stateward.control.care.text import proposal_text, question
from stateward.control.jobs.verbs import CHANGING_DAG, VERBS, Verb, verb_of
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec

if TYPE_CHECKING:
    from airflow.sdk import Context


class ApproveCareOperator(ApprovalOperator):
    """Waits for a person under *Required Actions*; skipped unless the decision is to ask.

    An answer after the window counts as none, and changes nothing.

    Args:
        stream: The stream's name.
    """

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(subject=f"{stream}: change the state?", defaults=self.REJECT, **kwargs)
        self.stream = stream

    def execute(self, context: Context) -> Any:
        """Ask.

        Raises:
            AirflowSkipException: There is nothing to ask, or the window has closed.
            TaskAwaitingInput: The person has not answered yet.
        """
        decision, spec = decision_of(context), spec_of(self.stream)
        if decision is None or decision.step != "ask":
            raise AirflowSkipException("there is nothing to approve")
        require_open(context, spec)
        closes, proposal = closes_at(context, spec), decision.proposals[0]
        page = context["ti"].xcom_pull(task_ids="dry_run", key=RESULT_PAGE) or ""
        self.subject = f"{self.stream}: {proposal_text(proposal)}?"
        self.body = question(self.stream, proposal, page, f"{closes:%Y-%m-%d %H:%M} UTC")
        limit_response(self, max(closes - datetime.now(UTC), timedelta(seconds=1)))
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Take the answer, and remember a refusal."""
        decision = decision_of(context)
        user = event.get("responded_by_user") or {}
        by = str(user.get("name") or user.get("id") or "") if isinstance(user, Mapping) else str(user)
        by = "" if event.get("timedout") else by  # Airflow names its own default
        approved = self.APPROVE in event.get("chosen_options", ())
        context["ti"].xcom_push(key=ANSWER, value={"approved": approved, "by": by})
        if not approved and by and decision is not None:
            refused = _change(decision.proposals[0], by=by, outcome="refused")
            add_change(Layout.of(Settings()), self.stream, refused)
        return super().execute_complete(context, event)


def _change(proposal: Proposal, **fields: Any) -> Change:
    return Change(
        at=datetime.now(UTC),
        kind=proposal.kind,
        before=proposal.before,
        after=proposal.after,
        files_bytes=proposal.cost.written_bytes // 2,
        state_bytes=proposal.cost.state_bytes,
        **fields,
    )


class RunOperationOperator(TriggerDagRunOperator):
    """Triggers a run of `state_operations` and waits for its end, deferred; it fails as that run does.

    Args:
        stream: The stream's name.
    """

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id=Settings().dag_id(CHANGING_DAG),
            wait_for_completion=True,
            deferrable=True,
            poke_interval=5,
            **kwargs,
        )
        self.stream = stream

    def choose(self, context: Context, spec: StreamSpec) -> tuple[Verb, Mapping[str, Any]]:
        """Return the verb and its fields.

        Raises:
            AirflowSkipException: There is nothing to do.
        """
        raise NotImplementedError

    def execute(self, context: Context) -> None:
        """Trigger the run.

        Raises:
            AirflowFailException: Runs of that DAG do not start, because it is paused.
            AirflowSkipException: There is nothing to do, or the window has closed.
            TaskDeferred: The run has not ended yet.
        """
        spec = spec_of(self.stream)
        require_open(context, spec)
        # Known before it is triggered, so that a change is on record whatever happens next.
        self.trigger_run_id = f"state_care__{self.stream}__{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
        verb, fields = self.choose(context, spec)
        self.conf = fixed_parameters(self.stream, verb.name, **fields)
        # By the provider's own argument it would be refused, or be ignored, by some of its versions.
        if is_paused(context["ti"], self.trigger_dag_id):
            raise AirflowFailException(
                f"stream {self.stream}: expected the DAG {self.trigger_dag_id} to run {verb.name}, found it"
                " paused. Unpause it; the next run of state care goes on."
            )
        super().execute(context)


class SavepointCareOperator(RunOperationOperator):
    """Makes a savepoint; skipped where the YAML wants none, or there is no committed batch to save."""

    def choose(self, context: Context, spec: StreamSpec) -> tuple[Verb, Mapping[str, Any]]:
        """A savepoint."""
        if spec.savepoints is None:
            raise AirflowSkipException(f"stream {self.stream}: savepoints is null in its YAML")
        decision = decision_of(context)
        if decision is not None and decision.because == "no_batch":
            raise AirflowSkipException(f"stream {self.stream}: no batch has been committed yet")
        return VERBS["savepoint"], {"reason": f"state care, {dag_run_of(context)}"}


class ActCareOperator(RunOperationOperator):
    """Makes the first proposed change, if the policy or a person lets it happen."""

    def choose(self, context: Context, spec: StreamSpec) -> tuple[Verb, Mapping[str, Any]]:
        """The change; it is on record from here on."""
        decision = decision_of(context)
        if decision is None or decision.step not in ("ask", "act"):
            raise AirflowSkipException("the policy lets nothing happen")
        by = ""
        if decision.step == "ask":
            answer = context["ti"].xcom_pull(task_ids="approve", key=ANSWER) or {}
            if not answer.get("approved"):
                raise AirflowSkipException("it was not approved; nothing is changed")
            by = answer["by"] or "a person"
        if is_outdated(spec):
            raise AirflowSkipException("another release was deployed since; upgrade the stream first")
        proposal = decision.proposals[0]
        run = f"{self.trigger_dag_id}/{self.trigger_run_id}"
        add_change(Layout.of(Settings()), self.stream, _change(proposal, by=by, run=run))
        return verb_of(proposal.verb), proposal.fields
