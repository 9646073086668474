"""The metrics: who may read them, and that Airflow serves them where Prometheus looks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from stateward.airflow.plugins.stream_metrics import StreamMetricsPlugin
from stateward.airflow.web.metrics_app import metrics_app
from stateward.contract.names import ENV_METRICS_TOKEN
from stateward.rendering.page_address import METRICS
from tests.airflow.conftest import ROOT
from tests.support.pages.sample_streams import installation, write
from tests.support.pages.signed_in import signed_in

pytestmark = pytest.mark.airflow

TOKEN = "a-token-for-prometheus"


@pytest.fixture
def server(
    tmp_path: Path, metadata_database: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, str]]:
    """The application mounted as Airflow mounts it, its UI behind it, and a user's token."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    monkeypatch.setenv("STATEWARD_STREAMS", str(tmp_path / "streams"))
    monkeypatch.setenv(ENV_METRICS_TOKEN, TOKEN)
    write(installation(tmp_path, datetime.now(UTC)), "failed")
    outer = FastAPI()
    [mount] = StreamMetricsPlugin.fastapi_apps
    outer.mount(mount["url_prefix"], metrics_app())

    @outer.get("/{rest:path}")
    def ui(rest: str) -> str:
        return "Airflow's UI"

    [middleware] = StreamMetricsPlugin.fastapi_root_middlewares
    outer.add_middleware(middleware["middleware"])
    with signed_in() as user:
        yield TestClient(outer, follow_redirects=False), user


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_who_has_the_token_reads_the_metrics_in_the_format_asked_for(server: tuple[Any, str]) -> None:
    client, _ = server
    answer = client.get(METRICS, headers=bearer(TOKEN))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.headers["cache-control"] == "private, no-cache"
    up = {
        sample.labels["stream"]: sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name == "stateward_stream_up"
    }
    assert up == {"user_sessions": 1, "payment_auth_join": 0}

    wanted = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    answer = client.get(METRICS, headers={**bearer(TOKEN), **wanted})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert "stateward_stream_up" in {family.name for family in read_openmetrics(answer.text)}


@pytest.mark.parametrize("path", [METRICS, f"{METRICS}/"])
def test_who_is_logged_in_needs_no_token(server: tuple[Any, str], path: str) -> None:
    client, user = server
    for given in ({"cookies": {"_token": user}}, {"headers": bearer(user)}):
        answer = client.get(path, **given)
        assert answer.status_code == 200
        assert 'stateward_stream_readable{stream="user_sessions"} 1.0' in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("forged"),
        bearer(TOKEN[:-1]),
        bearer("ünknown"),
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Cookie": f"_token={TOKEN}"},
    ],
    ids=str,
)
def test_anybody_else_is_refused(server: tuple[Any, str], headers: dict[str, str]) -> None:
    client, _ = server
    encoded = {name: value.encode() for name, value in headers.items()}
    answer = client.get(METRICS, headers=encoded)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "user_sessions" not in answer.text


@pytest.mark.parametrize("setting", ["", None])
def test_without_a_token_in_the_settings_none_is_right(
    server: tuple[Any, str], monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    client, user = server
    monkeypatch.delenv(ENV_METRICS_TOKEN)
    if setting is not None:
        monkeypatch.setenv(ENV_METRICS_TOKEN, setting)
    for token in (TOKEN, "", "None"):
        assert client.get(METRICS, headers=bearer(token)).status_code == 401
    assert client.get(METRICS, headers=bearer(user)).status_code == 200


def test_a_person_who_is_not_logged_in_is_asked_to(server: tuple[Any, str]) -> None:
    client, _ = server
    answer = client.get(METRICS, headers={"Accept": "text/html"})
    assert answer.status_code == 303
    assert "/login?next=" in answer.headers["location"]


def test_other_paths_are_left_to_airflow(server: tuple[Any, str]) -> None:
    client, _ = server
    for path in ("/", "/stateward/metricsx", f"/x{METRICS}"):
        assert client.get(path).json() == "Airflow's UI"


def test_airflow_takes_the_plugin_as_it_is(metadata_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow import plugins_manager
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from fastapi.testclient import TestClient

    plugin = (StreamMetricsPlugin.fastapi_apps, StreamMetricsPlugin.fastapi_root_middlewares)
    monkeypatch.setattr(plugins_manager, "get_fastapi_plugins", lambda: plugin)
    client = TestClient(create_app(apps="core"), follow_redirects=False)
    assert client.get(METRICS).status_code == 401
    purge_cached_app()


def test_the_plugin_costs_other_parts_of_airflow_nothing() -> None:
    heavy = "{'fastapi', 'prometheus_client', 'deltalake', 'pyarrow', 'stateward.metrics.exposition'}"
    program = (
        "import sys, airflow.plugins_manager\nbefore = set(sys.modules)\n"
        "import stateward.airflow.plugins.stream_metrics\n"
        f"print(sorted({heavy} & (set(sys.modules) - before)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout.splitlines()[-1] == "[]"
