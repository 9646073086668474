"""The quality pages: who may read them, and that Airflow shows them in its navigation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from include.plugins.quality_page import QualityPagePlugin
from include.settings import Settings
from include.web.quality_app import quality_app
from tests.airflow.conftest import ROOT
from tests.sample_quality import week

pytestmark = pytest.mark.airflow


@pytest.fixture
def server(
    tmp_path: Path, metadata_database: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, str]]:
    """The application mounted as Airflow mounts it, with Airflow's own authentication, and a user's token."""
    from airflow.api_fastapi.app import create_app, get_auth_manager, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    week(Settings(), datetime.now(UTC))
    create_app(apps="core")  # Makes the auth manager, which checks the tokens.
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="reader", role="viewer"))
    outer = FastAPI()
    [mount] = QualityPagePlugin.fastapi_apps
    outer.mount(mount["url_prefix"], quality_app())
    yield TestClient(outer, follow_redirects=False), token
    purge_cached_app()


def test_the_pages_are_for_people_who_are_logged_in(server: tuple[Any, str]) -> None:
    client, token = server
    [view] = QualityPagePlugin.external_views
    overview = f"/{view['href']}"
    table = "/stateward/quality/table.html?stream=user_sessions&table=sessions"
    for page in (overview, table):
        assert client.get(page).status_code == 401
        assert client.get(page, headers={"Authorization": "Bearer forged"}).status_code == 403
        sent_to_login = client.get(page, headers={"Accept": "text/html"})
        assert sent_to_login.status_code == 303
        assert "/login?next=" in sent_to_login.headers["location"]
        assert "duration_is_not_negative" not in sent_to_login.text

        answer = client.get(page, cookies={"_token": token})
        assert answer.status_code == 200
        assert "duration_is_not_negative" in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "private, no-cache"
    for wrong in (f"{overview}?days=31", table.replace("table=sessions", "table=../secret")):
        assert client.get(wrong, cookies={"_token": token}).status_code == 422


def test_airflow_takes_the_overview_into_its_navigation() -> None:
    from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse

    [view] = [ExternalViewResponse(**view) for view in QualityPagePlugin.external_views]

    assert (view.destination, view.url_route, view.nav_top_level) == ("nav", "quality", True)


def test_the_plugin_costs_other_parts_of_airflow_nothing() -> None:
    heavy = "{'fastapi', 'jinja2.environment', 'deltalake', 'pyarrow', 'include.web.quality_view'}"
    program = (
        "import sys, airflow.plugins_manager\nbefore = set(sys.modules)\n"
        "import include.plugins.quality_page\n"
        f"print(sorted({heavy} & (set(sys.modules) - before)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout.splitlines()[-1] == "[]"
