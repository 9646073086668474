"""The variable `incident` of a notifier's templates."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from stateward.alerts.incident import Incident, Message
from stateward.contract.reading import format_time
from stateward.rendering import page_address


def incident_context(message: Message, airflow_url: str, dag_run: str) -> dict[str, Any]:
    """Build the variable `incident` from a message.

    Args:
        message: One transition of an incident.
        airflow_url: The URL of Airflow for people.
        dag_run: The run that sends it, `<dag id>/<run id>`.

    Returns:
        Text and numbers, for templates and JSON.
    """
    incident = message.incident
    dag_id, _, run_id = dag_run.partition("/")
    facts: dict[str, Any] = {
        "id": incident.id,
        "message_id": message.id,
        "event": message.kind,
        "stream": incident.stream,
        "table": incident.table,
        "level": incident.level,
        "topic": incident.topic,
        "title": _title(message),
        "cause": incident.words.cause,
        "likely_cause": incident.words.likely_cause,
        "next_step": "Nothing." if message.kind == "resolved" else incident.words.next_step,
        "since": format_time(incident.since),
        "until": "" if incident.until is None else format_time(incident.until),
        "ended": incident.ended,
        "restarts": incident.restarts,
        "gave_up": incident.gave_up,
        "links": {
            "dag_run": page_address.public(airflow_url, page_address.dag_run(dag_id, run_id)),
            "page": page_address.public(airflow_url, _page(incident)),
            "runbook": "docs/runbook.md",
        },
    }
    return {**facts, "text": _text(facts, message)}


def _page(incident: Incident) -> str:
    if incident.table:
        return page_address.table(incident.stream, incident.table)
    return page_address.stream(incident.stream)


def _title(message: Message) -> str:
    title = message.incident.words.title
    if message.kind == "acted" and message.incident.level == "warn":
        return f"Done: {title}"
    return f"Resolved: {title}" if message.kind == "resolved" else f"{message.incident.level}: {title}"


def _text(facts: dict[str, Any], message: Message) -> str:
    incident = message.incident
    lines = [facts["title"], "", incident.words.cause]
    if message.kind == "resolved":
        lines += [incident.ended]
    else:
        cause = "Reasons" if message.kind == "acted" else "Likely cause"
        lines += [f"{cause}: {incident.words.likely_cause}", f"What to do: {facts['next_step']}"]
    lines += ["", f"Since {_moment(incident.since)}" + _until(incident.until)]
    if incident.topic == "driver":
        lines += [f"Restarts of the driver in this incident: {incident.restarts}"]
    links = facts["links"]
    lines += [f"Incident {incident.id}", links["page"], links["dag_run"], links["runbook"]]
    return "\n".join(lines)


def _until(until: datetime | None) -> str:
    return "" if until is None else f", until {_moment(until)}"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
