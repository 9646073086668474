"""The last task of a run of `state_<stream>`: its page, the record of a change, and the message about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from stateward.airflow.care.context import ANSWER, TRIGGERED, decision_of, spec_of
from stateward.airflow.compat import AirflowFailException
from stateward.airflow.notifiers.dispatcher import Dispatcher
from stateward.airflow.operators.deploy_stream import dag_run_of
from stateward.airflow.operators.incident_reporting import report_message
from stateward.airflow.operators.operation_params import REASON
from stateward.airflow.operators.state_operation import RESULT_PAGE, ResultPageLink
from stateward.alerts.state_care import care_message
from stateward.contract.state_care import Change, Outcome
from stateward.contract.storage import write_text
from stateward.control.care.cost import savepoint_cost
from stateward.control.care.policy import Decision, Proposal
from stateward.control.care.record import end_change, read_record
from stateward.control.care.schedule import rules_of
from stateward.control.care.text import (
    answer_text,
    cost_text,
    held_text,
    outcome_text,
    proposal_text,
    reason_texts,
    saving_texts,
)
from stateward.control.jobs.operation_request import Operation, operations_of_run
from stateward.control.jobs.verbs import CHANGING_DAG
from stateward.pages.access import CARE
from stateward.pages.link import Link
from stateward.pages.state_care import CareView, ProposalView, StepView, render
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.rendering import page_address

if TYPE_CHECKING:
    from airflow.sdk import Context

_LEVELS = {"success": "good", "failed": "bad", "upstream_failed": "bad"}


class ReportCareOperator(BaseOperator):
    """Reports a run, whatever became of its tasks; it fails when one of them has failed.

    Args:
        stream: The stream's name.
        reported: The tasks, in order.
    """

    operator_extra_links = (ResultPageLink(),)

    def __init__(self, *, stream: str, reported: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.reported = list(reported)

    def execute(self, context: Context) -> str:
        """Write the page, and send a message about a change that `auto` has made, or that has failed.

        Returns:
            What became of the decision, one sentence.

        Raises:
            AirflowFailException: A task has failed.
        """
        now, ti, spec, settings = datetime.now(UTC), context["ti"], spec_of(self.stream), Settings()
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id]).get(ti.run_id, {})
        decision = decision_of(context)
        steps = [self._step(context, task, str(states.get(task) or "none")) for task in self.reported]
        problems = [f"{one.name}: {one.text or 'its log says why'}" for one in steps if one.state == "failed"]
        none = f"{self.stream}: nothing was advised; the policy is {spec.state_care.policy}."
        act = str(states.get("act"))
        headline = outcome_text(self.stream, decision, rules_of(spec), act) if decision else none
        proposals = [_view(one) for one in decision.proposals] if decision else []
        self._write(context, CareView(self.stream, now, spec.state_care.policy, headline, proposals, steps))
        if triggered := ti.xcom_pull(task_ids="act", key=TRIGGERED):
            outcome: Outcome = "done" if states.get("act") == "success" else "failed"
            change = end_change(
                Layout.of(settings), self.stream, f"{settings.dag_id(CHANGING_DAG)}/{triggered}", outcome, now
            )
            self._tell(context, change, decision, " ".join(problems), now)
        if problems:
            raise AirflowFailException(" | ".join(problems))
        return headline

    def _write(self, context: Context, view: CareView) -> None:
        """Write the page and link to it."""
        settings = Settings()
        at = context["dag_run"].start_date or view.at
        name = f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{CARE}"
        folder = Layout.of(settings).operation_uri(self.stream, name)
        write_text(f"{folder}/index.html", render(view))
        page = page_address.operation(self.stream, name)
        context["ti"].xcom_push(key=RESULT_PAGE, value=page_address.on_server(settings.airflow_url, page))

    def _step(self, context: Context, task: str, state: str) -> StepView:
        ti = context["ti"]
        triggered = ti.xcom_pull(task_ids=task, key=TRIGGERED)
        if triggered:
            settings = Settings()
            dag_id = settings.dag_id(CHANGING_DAG)
            made = operations_of_run(self.stream, settings, f"{dag_id}/{triggered}")
            run = page_address.relative(page_address.dag_run(dag_id, triggered), self._here())
            links = [Link("run", run, outer=True), *(self._page(one.verb.name, one.id) for one in made)]
            # What its last task says: also that the stream went back, which no operation knows.
            reason = ti.xcom_pull("outcome", dag_id, REASON, run_id=triggered) if state == "failed" else None
            cost = self._savepoint_cost() if task == "savepoint" else ""
            text = str(reason) if reason else f"{_last_words(made)} {cost}".strip()
            return StepView(task, _LEVELS.get(state, "calm"), state, text, links)
        page = ti.xcom_pull(task_ids=task, key=RESULT_PAGE)
        links = [self._page("page", str(page).split("/")[-2])] if page else []
        lines = ti.xcom_pull(task_ids=task) if state == "success" else None
        # The proposal follows the decision, which names it.
        text = " ".join(lines[: 1 if task == "advise" else 2]) if isinstance(lines, list) else ""
        if (answer := ti.xcom_pull(task_ids=task, key=ANSWER)) is not None:
            text = answer_text(**answer)
        reason = ti.xcom_pull(task_ids=task, key=REASON) if state == "failed" else None
        return StepView(task, _LEVELS.get(state, "calm"), state, str(reason or text), links)

    def _here(self) -> str:
        """The address of any page of the stream's operations: they lie side by side."""
        return page_address.operation(self.stream, CARE)

    def _page(self, text: str, operation: str) -> Link:
        return Link(text, page_address.relative(page_address.operation(self.stream, operation), self._here()))

    def _savepoint_cost(self) -> str:
        looks = read_record(Layout.of(Settings()), self.stream).looks
        return cost_text(savepoint_cost(looks[-1].files_bytes)) if looks else ""

    def _tell(
        self, context: Context, change: Change | None, decision: Decision | None, problem: str, now: datetime
    ) -> None:
        # A person who approved a change looks at it; what has failed is for all.
        if change is None or (change.by and change.outcome == "done"):
            return
        reasons = reason_texts(decision.proposals[0]) if decision and decision.proposals else []
        dispatcher = Dispatcher(self.stream, dag_run_of(context), context, Settings(), "state_care")
        report_message(dispatcher, care_message(self.stream, change, reasons, problem, now))


def _view(proposal: Proposal) -> ProposalView:
    return ProposalView(
        proposal_text(proposal),
        held_text(proposal),
        reason_texts(proposal),
        cost_text(proposal.cost),
        saving_texts(proposal),
    )


def _last_words(made: Sequence[Operation]) -> str:
    """What the operations of a run report, the verb of the run last."""
    results: list[Mapping[str, Any]] = [found for one in made if (found := one.result()) is not None]
    refused = [str(one["message"]) for one in results if one.get("message")]
    return refused[-1] if refused else " ".join(results[-1]["lines"][:2]) if results else ""
