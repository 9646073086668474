"""When a person is told about a table: what a validation makes of its incidents. Pure.

A table has at most one open incident of each topic:

- `quality`: expectations do not hold that are critical.
- `quality_warn`: expectations do not hold that are warnings.

The next validation in which nothing of that severity fails ends it.
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
    """One expectation that does not hold; its severity is `critical` or `warn`."""

    name: str
    severity: str
    observed: str


@dataclass(frozen=True)
class Judged:
    """A table as its newest validation has found it.

    Attributes:
        stream: Whose table it is.
        table: Its name.
        version: The last Delta version that was looked at.
        expectations: How many were evaluated.
        failing: Those that do not hold.
        at: When, aware.
    """

    stream: str
    table: str
    version: int
    expectations: int
    failing: tuple[FailedExpectation, ...]
    at: datetime


def next_table_incidents(memory: IncidentState, judged: Judged) -> tuple[IncidentState, tuple[Message, ...]]:
    """Take in one validation.

    Args:
        memory: What the last call has returned.
        judged: What was found; validations of a past of the table are not given.

    Returns:
        What to remember, and what is to be told.
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
    until = f"The validation up to version {judged.version} found nothing"
    ended = (
        f"{until} to warn of."
        if severity == "warn"
        else f"{until} critical. Rows in quarantine stay there until a validation of their versions finds"
        " them in order."
    )
    return replace(known, well_since=judged.at, well_at=judged.at, until=judged.at, ended=ended)


def _words(topic: TableTopic, judged: Judged, failing: list[FailedExpectation]) -> Words:
    count = len(failing)
    named = "; ".join(f"{one.name}: {one.observed}" for one in failing[:_NAMED])
    more = f"; and {count - _NAMED} more" if count > _NAMED else ""
    cause = (
        f"Up to version {judged.version} of {judged.table}, {count} of {judged.expectations} expectations do "
        f"not hold: {named}{more}."
    )
    where = "The table's page says of failing rows where they came from: a batch of the stream, or elsewhere."
    means = "the page of the suite, linked from the report, says what each means and what to do"
    if topic == "quality":
        return Words(
            f"{judged.stream}: the table {judged.table} breaks what it promises",
            cause,
            where,
            f"The stream goes on; what waits for {judged.stream}.{judged.table}.valid is not started. See"
            f" docs/runbook.md, Rows are in quarantine; {means}.",
        )
    return Words(
        f"{judged.stream}: the table {judged.table} is not as usual",
        cause,
        where,
        f"Nothing waits for it; {means}.",
    )
