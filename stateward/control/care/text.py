"""Sentences about a decision: for logs, for the person who approves it, for the report and messages. Pure."""

from __future__ import annotations

from stateward.contract.state_care import ChangeKind
from stateward.control.care.cost import Cost
from stateward.control.care.policy import Because, Decision, Proposal, Reason, Rules, Step
from stateward.rendering.human_units import format_bytes, format_duration

_CHANGES: dict[ChangeKind, str] = {
    "repartition": "{after} partitions in place of {before}",
    "rebucket": "{after} buckets in place of {before}",
    "migrate": "states of version {before} become those of version {after}",
}
_BECAUSE: dict[Because, str] = {
    "off": "the policy is off",
    "no_look": "the state has not been looked at",
    "no_batch": "no batch has been committed yet, so there is nothing to look at",
    "fits": "the state is as it should be",
    "policy": "the policy is {policy}",
    "upgrade_first": "another release is deployed than the one that runs; upgrade the stream first",
    "not_held": "{held} of {looks} looks in a row have advised it",
    "long_pause": "the expected pause of {pause} is longer than max_pause, {max_pause}",
    "too_soon": "the state was changed within a day",
    "failed_before": "it failed within the last seven days",
    "refused_before": "a person refused it within the last seven days",
    "held": "{held} looks in a row have advised it",
}
_STEPS: dict[Step, str] = {
    "none": "not done",
    "propose": "proposed only",
    "ask": "waits for a person",
    "act": "to be done",
}
_ENDED = {"success": "done", "failed": "failed"}


def change_text(kind: ChangeKind, before: int, after: int) -> str:
    """Return a change in one phrase: `4 partitions in place of 2`."""
    text = _CHANGES[kind].format(before=before, after=after)
    return text.replace("1 partitions", "1 partition") if after == 1 else text


def proposal_text(proposal: Proposal) -> str:
    """Return a proposal in one phrase."""
    return change_text(proposal.kind, proposal.before, proposal.after)


def because_text(decision: Decision, rules: Rules) -> str:
    """Return why a decision is no other one, in one phrase."""
    proposal = decision.proposals[0] if decision.proposals else None
    return _BECAUSE[decision.because].format(
        policy=rules.policy,
        looks=rules.looks,
        max_pause=format_duration(rules.max_pause.total_seconds()),
        held=proposal.held if proposal else 0,
        pause=format_duration(proposal.cost.pause_s) if proposal else "",
    )


def decision_text(stream: str, decision: Decision, rules: Rules) -> str:
    """Return a decision in one sentence."""
    return _sentence(stream, decision, rules, _STEPS[decision.step])


def outcome_text(stream: str, decision: Decision, rules: Rules, act: str) -> str:
    """Return what became of a decision in one sentence.

    Args:
        stream: The stream.
        decision: What was decided.
        rules: The rules of the stream.
        act: The state of the task that makes the change, when it has ended.
    """
    if decision.step not in ("ask", "act"):
        return decision_text(stream, decision, rules)
    return _sentence(stream, decision, rules, _ENDED.get(act, "not done"))


def _sentence(stream: str, decision: Decision, rules: Rules, step: str) -> str:
    because = because_text(decision, rules)
    if not decision.proposals:
        return f"{stream}: nothing to change: {because}."
    return f"{stream}: {proposal_text(decision.proposals[0])}: {step}, {because}."


def reason_texts(proposal: Proposal) -> list[str]:
    """Return why a change is proposed, one sentence each; how the number was calculated comes last."""
    return [*map(_reason, proposal.reasons), *(f"Calculated: {one}." for one in proposal.advice)]


def _reason(reason: Reason) -> str:
    if reason.kind == "grown":
        return f"The load or the state needs more partitions: {reason.wanted:g} in place of {reason.found:g}."
    if reason.kind == "shrunk":
        return f"The busiest hour of seven days needs fewer: {reason.wanted:g} in place of {reason.found:g}."
    if reason.kind == "skew":
        return f"The largest partition is {reason.found:.1f} times the median, more than {reason.wanted:g}."
    return f"States of version {reason.found:g} may be left; the code writes version {reason.wanted:g}."


def cost_text(cost: Cost) -> str:
    """Return the expected cost in one sentence."""
    source = "as the last change of its kind" if cost.is_measured else "estimated from the size"
    return (
        f"The stream is stopped for about {format_duration(cost.pause_s)} ({source}); "
        f"{format_bytes(cost.written_bytes)} are written."
    )


def answer_text(*, approved: bool, by: str) -> str:
    """Return what became of a question, in one sentence; without a person there was no answer in time."""
    if not by:
        return "No answer in time; nothing is changed."
    return f"Approved by {by}." if approved else f"Rejected by {by}; nothing is changed."


def held_text(proposal: Proposal) -> str:
    """Return how many looks have advised a change, in one phrase."""
    return "Advised by one look" if proposal.held == 1 else f"Advised by {proposal.held} looks in a row"


def saving_texts(proposal: Proposal) -> list[str]:
    """Return what a change is expected to save, one sentence each."""
    saving = proposal.saving
    if proposal.kind == "migrate":
        return [
            "Steps from older versions can be removed from the code; no state is converted when it is read."
        ]
    texts = []
    before, after = saving.largest_bytes
    if after < before:
        texts.append(f"Largest partition: {format_bytes(before)} before, about {format_bytes(after)} after.")
    if saving.tasks[0] != saving.tasks[1]:
        texts.append(f"Tasks of a batch on the state: {saving.tasks[0]} before, {saving.tasks[1]} after.")
    if saving.batch_ms is not None:
        busy = [format_duration(ms / 1000) for ms in saving.batch_ms]
        texts.append(f"A busy batch: {busy[0]} before, about {busy[1]} after, where records decide.")
    return texts


def question(stream: str, proposal: Proposal, page: str, closes: str) -> str:
    """Return what a person reads beside the buttons, as Markdown.

    Args:
        stream: The stream.
        proposal: What is proposed.
        page: Path of the dry run's page on Airflow's server; empty without one.
        closes: Until when an answer counts.
    """
    lines = [
        f"**{stream}: {proposal_text(proposal)}**",
        "",
        *(f"- {text}" for text in reason_texts(proposal)),
        f"- Expected pause and cost: {cost_text(proposal.cost)}",
        *(f"- {text}" for text in saving_texts(proposal)),
        f"- {held_text(proposal)}.",
        "",
        *([f"[Page of the dry run]({page})", ""] if page else []),
        "*Approve*: `state_operations` stops the stream, makes a savepoint, changes a copy of the state, "
        "verifies it, and starts the stream; it goes back to the savepoint if the stream does not run. "
        "*Reject*: nothing changes, and the same is not asked again for seven days. "
        f"Without an answer until {closes} nothing changes.",
    ]
    return "\n".join(lines)
