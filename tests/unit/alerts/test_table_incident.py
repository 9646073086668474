"""When an incident of a table is opened and resolved, and when not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from stateward.alerts.incident import IncidentState, Message
from stateward.alerts.incident_document import IncidentDocument, from_json, to_json
from stateward.alerts.table_incident import FailedExpectation, Judged, next_table_incidents
from stateward.alerts.template_context import incident_context

NOW = datetime(2026, 2, 3, 14, 30, tzinfo=UTC)
BROKEN = FailedExpectation("session_id_is_unique", "critical", "4 unexpected rows")
ODD = FailedExpectation("rows_per_hour_are_as_usual", "warn", "10 times as many")


def judged(hour: int, *failing: FailedExpectation) -> Judged:
    at = NOW + timedelta(hours=hour)
    return Judged("user_sessions", "sessions", 10 + hour, 33, failing, at)


def after(*validations: tuple[FailedExpectation, ...]) -> list[tuple[int, str, str]]:
    """The messages: validation, kind and topic of each."""
    memory = IncidentState()
    found: list[tuple[int, str, str]] = []
    for hour, failing in enumerate(validations):
        memory, messages = next_table_incidents(memory, judged(hour, *failing))
        found += [(hour, message.kind, message.incident.topic) for message in messages]
    return found


def test_once_when_it_breaks_and_once_when_it_is_in_order_again() -> None:
    assert after((), (BROKEN,), (BROKEN,), (BROKEN, ODD), (), ()) == [
        (1, "opened", "quality"),
        (3, "opened", "quality_warn"),
        (4, "resolved", "quality"),
        (4, "resolved", "quality_warn"),
    ]


def test_what_is_only_a_warning_now_is_no_longer_critical() -> None:
    assert after((BROKEN, ODD), (ODD,), ()) == [
        (0, "opened", "quality"),
        (0, "opened", "quality_warn"),
        (1, "resolved", "quality"),
        (2, "resolved", "quality_warn"),
    ]


def test_the_same_validation_again_tells_nothing_new() -> None:
    memory, first = next_table_incidents(IncidentState(), judged(0, BROKEN))
    assert len(first) == 1
    assert next_table_incidents(memory, judged(0, BROKEN)) == (memory, ())


def test_another_incident_later_has_another_name() -> None:
    memory, (first,) = next_table_incidents(IncidentState(), judged(0, BROKEN))
    memory, (over,) = next_table_incidents(memory, judged(1))
    _, (second,) = next_table_incidents(memory, judged(2, BROKEN))
    assert len({first.id, over.id, second.id}) == 3
    assert first.incident.id == over.incident.id != second.incident.id


def test_what_is_said_names_the_expectations_and_leads_to_the_table() -> None:
    several = [FailedExpectation(f"rule_{number}", "critical", f"{number} rows") for number in range(5)]
    _, (message,) = next_table_incidents(IncidentState(), judged(0, *several))
    facts = incident_context(message, "http://airflow.example/base", "quality_user_sessions/manual__1")
    assert facts["cause"] == (
        "Up to version 10 of sessions, 5 of 33 expectations fail: rule_0: 0 rows; rule_1: 1 rows;"
        " rule_2: 2 rows; and 2 more."
    )
    assert (facts["level"], facts["table"]) == ("critical", "sessions")
    page = "http://airflow.example/base/stateward/quality/table.html?stream=user_sessions&table=sessions"
    assert facts["links"]["page"] == page
    assert "user_sessions.sessions.valid do not start" in facts["next_step"]
    assert facts["title"] == "critical: user_sessions: critical expectations of the table sessions fail"


def test_a_warning_is_for_those_who_have_asked_for_warnings() -> None:
    _, (message,) = next_table_incidents(IncidentState(), judged(0, ODD))
    assert message.incident.level == "warn"


def test_it_is_kept_as_other_incidents_are() -> None:
    memory, (message,) = next_table_incidents(IncidentState(), judged(0, BROKEN))
    assert isinstance(message, Message)
    kept = IncidentDocument("user_sessions.sessions", 3, memory)
    assert from_json(to_json(kept)) == kept
