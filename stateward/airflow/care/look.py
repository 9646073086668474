"""The tasks that only look: measure and decide, try a change dry, verify a savepoint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stateward.airflow.care.context import (
    DECISION,
    DECISION_JSON,
    TRIGGERED,
    decision_of,
    fixed_parameters,
    is_outdated,
    operation_result,
    spec_of,
)
from stateward.airflow.compat import AirflowFailException, AirflowSkipException
from stateward.airflow.operators.operation_params import Asked, asked_of
from stateward.airflow.operators.state_operation import StateOperationOperator
from stateward.contract.reading import InvalidDocumentError, read_as
from stateward.contract.state_care import Look
from stateward.control.care.policy import Decision, decide
from stateward.control.care.record import add_look
from stateward.control.care.schedule import rules_of
from stateward.control.care.text import decision_text, proposal_text, reason_texts
from stateward.control.jobs.verbs import VERBS, Verb
from stateward.project.layout import Layout
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class AdviseCareOperator(StateOperationOperator):
    """Measures the state, remembers the look, and decides; skipped with the policy `off`.

    Args:
        stream: The stream's name.
    """

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(asks=fixed_parameters(stream, "advise"), **kwargs)
        self.stream = stream

    def execute(self, context: Context) -> list[str]:
        """Run the verb `advise`, and decide.

        Returns:
            The decision and its reasons, one sentence each.

        Raises:
            AirflowSkipException: The policy is `off`.
            AirflowFailException: The state cannot be measured.
        """
        spec, layout = spec_of(self.stream), Layout.of(Settings())
        rules = rules_of(spec)
        if rules.policy == "off":
            raise AirflowSkipException(f"stream {self.stream}: state_care.policy is off")
        super().execute(context)
        look = self._look(context)
        if look is None:
            decision = Decision("none", "no_batch")
        else:
            record = add_look(layout, self.stream, look)
            decision = decide(rules, record, datetime.now(UTC), is_outdated=is_outdated(spec))
        context["ti"].xcom_push(key=DECISION, value=DECISION_JSON.dump_python(decision, mode="json"))
        reasons = [text for one in decision.proposals for text in (proposal_text(one), *reason_texts(one))]
        lines = [decision_text(self.stream, decision, rules), *reasons]
        for line in lines:
            self.log.info("%s", line)
        return lines

    def _look(self, context: Context) -> Look | None:
        """The look of this run; None if no batch has been committed yet."""
        result = asked_of(context, self.asks).result(VERBS["advise"]) or {}
        look = result.get("data", {}).get("look", {})
        if look is None:
            return None
        try:
            return read_as(Look, look, f"stream {self.stream}: advise")
        except InvalidDocumentError as error:
            raise AirflowFailException(str(error)) from error


class DryRunCareOperator(StateOperationOperator):
    """Tries the first proposal while the stream runs, for its page; skipped without one.

    Args:
        stream: The stream's name.
    """

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    def execute(self, context: Context) -> list[str]:
        """Run the verb dry.

        Returns:
            What it would do.

        Raises:
            AirflowSkipException: There is nothing to try.
            AirflowFailException: It would be refused.
        """
        decision = decision_of(context)
        if decision is None or not decision.proposals:
            raise AirflowSkipException("nothing is proposed")
        proposal = decision.proposals[0]
        parameters = fixed_parameters(self.stream, proposal.verb, **proposal.fields)
        self.asks = {**parameters, "dry_run": True}
        return super().execute(context)


class VerifyCareOperator(StateOperationOperator):
    """Reads every file of the savepoint that the run has made.

    Args:
        stream: The stream's name.
    """

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(asks=fixed_parameters(stream, "verify"), **kwargs)
        self.stream = stream

    def choose(self, asked: Asked) -> tuple[Verb, Mapping[str, Any]]:
        """Verify the savepoint of this run."""
        made = operation_result(self.stream, self.triggered, "savepoint")
        if made is None:
            raise AirflowFailException(f"stream {self.stream}: {self.triggered} has left no savepoint")
        return VERBS["verify"], {"savepoint": made["data"]["savepoint"]}

    def execute(self, context: Context) -> list[str]:
        """Verify it.

        Returns:
            The verb's message.
        """
        self.triggered = str(context["ti"].xcom_pull(task_ids="savepoint", key=TRIGGERED))
        return super().execute(context)
