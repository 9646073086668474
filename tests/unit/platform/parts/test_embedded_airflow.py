"""The configuration of the embedded Airflow that follows from its address."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateward.platform.parts import airflow
from stateward.platform.secrets import Secrets
from stateward.project.settings import Settings


@pytest.mark.parametrize(
    ("airflow_url", "tasks"),
    [
        ("http://localhost:18080", "http://127.0.0.1:18080/execution/"),
        ("https://data.example.com/airflow", "http://127.0.0.1:18080/airflow/execution/"),
    ],
)
def test_its_tasks_ask_the_server_itself_below_the_prefix_of_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_url: str, tasks: str
) -> None:
    monkeypatch.setattr(airflow, "find_java", lambda: Path("/java"))
    settings = Settings(home=tmp_path, airflow_url=airflow_url)
    environment = airflow.environment(settings, Secrets.load_or_create(tmp_path))
    assert environment["AIRFLOW__API__BASE_URL"] == airflow_url
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == tasks
