"""What the buttons of Airflow's pages do, without a browser."""

from __future__ import annotations

from typing import Any

from stateward.cli.streams.airflow_api import AirflowApi


def press(api: AirflowApi, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Send what a button sends, `path` being that below `/api/v2`, and return the answer, if there is one."""
    answer = api._client.request(method, f"/api/v2{path}", json=body)
    assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else None
