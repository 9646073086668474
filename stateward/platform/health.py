"""Does a part answer? The process being there is not enough."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any

from stateward.platform.parts.registry import API_SERVER, DAG_PROCESSOR, KAFKA, SCHEDULER, TRIGGERER, Part
from stateward.platform.parts.supervisord import PartState
from stateward.platform.topics import broker_answers
from stateward.project.settings import Settings

_COMPONENT = {
    SCHEDULER.name: "scheduler",
    DAG_PROCESSOR.name: "dag_processor",
    TRIGGERER.name: "triggerer",
}


def airflow_health(settings: Settings, timeout_s: float = 3.0) -> dict[str, Any] | None:
    """Return the answer of Airflow's health endpoint, or None when the API server does not answer."""
    # Never through a proxy: the server is on this machine, or in a container of it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(
            f"{settings.airflow_internal_url}/api/v2/monitor/health", timeout=timeout_s
        ) as answer:
            health: dict[str, Any] = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    return health


def answers(part: Part, state: PartState | None, settings: Settings, health: dict[str, Any] | None) -> bool:
    """Return whether `part` does its work.

    Args:
        part: the part.
        state: what the supervisor says about it; None when something else runs it.
        settings: where it listens.
        health: the newest answer of Airflow's health endpoint.
    """
    if part == KAFKA:
        return broker_answers(settings.kafka_bootstrap)
    if health is None:
        return False
    if part == API_SERVER:
        return bool(health.get("metadatabase", {}).get("status") == "healthy")
    component = health.get(_COMPONENT[part.name]) or {}
    heartbeat = component.get(f"latest_{_COMPONENT[part.name]}_heartbeat")
    if component.get("status") != "healthy" or heartbeat is None:
        return False
    if state is None or state.started_at is None:
        return state is None
    # A killed predecessor's last heartbeat still counts as healthy for a while.
    return _parse(heartbeat) >= datetime.fromtimestamp(state.started_at, UTC)


def _parse(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
