"""The incidents of a table, and one message for each of their transitions. Pure.

A table has at most one open incident of each topic:

- `quality`: expectations of severity `critical` fail.
- `quality_warn`: expectations of severity `warn` fail.

The next validation in which no expectation of that severity fails resolves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from stateward.alerts.incident import Incident, IncidentState, Message
from stateward.alerts.incident_text import Words

TableTopic = Literal["quality", "quality_warn"]

_TOPICS: tuple[tuple[TableTopic, str], ...] = (
    ("quality", "critical"),
    ("quality_warn", "warn"),
)
_NAMED = 3


@dataclass(frozen=True)
class FailedExpectation:
    """One expectation that failed; its severity is `critical` or `warn`."""

    name: str
    severity: str
    observed: str


@dataclass(frozen=True)
class Judged:
    """The newest validation of a table.

    Attributes:
        stream: The stream that writes the table.
        table: The table's name.
        version: The last Delta version that was validated.
        expectations: Number of evaluated expectations.
        failing: Those that failed.
        at: When, aware.
    """

    stream: str
    table: str
    version: int
    expectations: int
    failing: tuple[FailedExpectation, ...]
    at: datetime


def next_table_incidents(memory: IncidentState, judged: Judged) -> tuple[IncidentState, tuple[Message, ...]]:
    """Compute the state after one validation.

    Args:
        memory: The state that the last call returned.
        judged: The validation; it must not be one of a past version of the table.

    Returns:
        The next state, and the messages to send.
    """
    kept: list[Incident] = []
    messages: list[Message] = []
    for topic, severity in _TOPICS:
        known = memory.of(topic)
        failing = [one for one in judged.failing if one.severity == severity]
        if failing and known is None:
            made = _opened(topic, judged, failing)
            kept.append(made)
            messages.append(Message("opened", judged.at, made))
        elif known is None:
            continue
        elif failing:
            kept.append(replace(known, bad_at=judged.at))
        else:
            messages.append(Message("resolved", judged.at, _over(known, judged, severity)))
    return replace(memory, open=tuple(kept)), tuple(messages)


def _opened(topic: TableTopic, judged: Judged, failing: list[FailedExpectation]) -> Incident:
    name = f"{judged.stream}-{judged.table}-{topic}-{judged.at:%Y%m%dT%H%M%S%f}"
    words = _words(topic, judged, failing)
    return Incident(name, judged.stream, topic, words, since=judged.at, bad_at=judged.at, table=judged.table)


def _over(known: Incident, judged: Judged, severity: str) -> Incident:
    until = f"In the validation up to version {judged.version} no expectation of severity {severity} failed."
    ended = (
        until
        if severity == "warn"
        else f"{until} Rows stay in quarantine until a validation of their versions passes."
    )
    return replace(known, well_since=judged.at, well_at=judged.at, until=judged.at, ended=ended)


def _words(topic: TableTopic, judged: Judged, failing: list[FailedExpectation]) -> Words:
    count = len(failing)
    named = "; ".join(f"{one.name}: {one.observed}" for one in failing[:_NAMED])
    more = f"; and {count - _NAMED} more" if count > _NAMED else ""
    cause = (
        f"Up to version {judged.version} of {judged.table}, {count} of {judged.expectations} expectations "
        f"fail: {named}{more}."
    )
    where = "The table's page shows where failing rows came from: a batch of the stream, or another writer."
    means = "the page of the suite, linked from the report, says what each means and what to do"
    if topic == "quality":
        return Words(
            f"{judged.stream}: critical expectations of the table {judged.table} fail",
            cause,
            where,
            f"The stream keeps running; DAGs scheduled on {judged.stream}.{judged.table}.valid do not start."
            f" See docs/runbook.md, Rows are in quarantine; {means}.",
        )
    return Words(
        f"{judged.stream}: expectations of the table {judged.table} fail, none of them critical",
        cause,
        where,
        f"No DAG is held back; {means}.",
    )
