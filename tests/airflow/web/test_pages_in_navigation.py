"""The streams and quality pages: who may read them, and that Airflow shows them in its navigation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.plugins_manager import AirflowPlugin

from stateward.airflow.plugins.quality_page import QualityPagePlugin
from stateward.airflow.plugins.streams_page import StreamsPagePlugin
from stateward.project.settings import Settings
from tests.airflow.conftest import ROOT
from tests.support.pages.sample_quality import week
from tests.support.pages.sample_streams import installation, write
from tests.support.pages.signed_in import signed_in

pytestmark = pytest.mark.airflow

QUALITY = "/stateward/quality/index.html"
STREAMS = "/stateward/streams/index.html"
TABLE = "/stateward/quality/table.html?stream=user_sessions&table=sessions"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, metadata_database: Path) -> Iterator[tuple[Any, str]]:
    """The applications mounted as Airflow mounts them, with its own authentication, and a user's token."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as environment, signed_in() as token:
        environment.setenv("STATEWARD_HOME", str(home))
        environment.setenv("STATEWARD_STREAMS", str(home / "streams"))
        write(installation(home, datetime.now(UTC)), "failed")
        week(Settings(), datetime.now(UTC))
        outer = FastAPI()
        for plugin in (QualityPagePlugin, StreamsPagePlugin):
            [mount] = plugin.fastapi_apps
            outer.mount(mount["url_prefix"], mount["app"])
        yield TestClient(outer, follow_redirects=False), token


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        (QUALITY, "duration_is_not_negative"),
        (TABLE, "duration_is_not_negative"),
        (STREAMS, "restarted 5 times"),
    ],
)
def test_a_page_is_for_people_who_are_logged_in(server: tuple[Any, str], page: str, shown: str) -> None:
    client, token = server
    assert client.get(page).status_code == 401
    assert client.get(page, headers={"Authorization": "Bearer forged"}).status_code == 403
    sent_to_login = client.get(page, headers={"Accept": "text/html"})
    assert sent_to_login.status_code == 303
    assert "/login?next=" in sent_to_login.headers["location"]
    assert shown not in sent_to_login.text

    answer = client.get(page, cookies={"_token": token})
    assert answer.status_code == 200
    assert shown in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "private, no-cache"


def test_the_folder_of_a_page_is_not_for_strangers_either(server: tuple[Any, str]) -> None:
    client, _ = server
    assert client.get("/stateward/streams/").status_code == 401


def test_the_streams_page_shows_as_many_hours_as_are_asked_for(server: tuple[Any, str]) -> None:
    client, token = server
    hour, day = (client.get(f"{STREAMS}?hours={n}", cookies={"_token": token}).text for n in (1, 24))
    assert hour.count("−1 h<") > 4 and "−1 h<" not in day
    assert 'href="?hours=24" aria-current="true"' in day


@pytest.mark.parametrize(
    "wrong",
    [f"{QUALITY}?days=31", TABLE.replace("table=sessions", "table=../secret"), f"{STREAMS}?hours=1000"],
)
def test_what_a_page_cannot_show_is_refused(server: tuple[Any, str], wrong: str) -> None:
    client, token = server
    assert client.get(wrong, cookies={"_token": token}).status_code == 422


def test_who_may_trigger_the_stream_acknowledges_failures(server: tuple[Any, str]) -> None:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    client, viewer = server
    user = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role="user"))
    about = {"stream": "user_sessions", "table": "sessions", "note": "known, see the ticket"}
    ours = {"X-Stateward": "page"}

    def send(token: str, headers: dict[str, str], **changes: str) -> int:
        client.cookies = {"_token": token}
        answer = client.post("/stateward/quality/acknowledge", json={**about, **changes}, headers=headers)
        return int(answer.status_code)

    assert send(viewer, ours) == 403, "who may only read"
    assert send(user, {}) == 403, "another site's page"
    assert send(user, ours, note="x" * 501) == 422
    assert send(user, ours, table="../secret") == 422
    assert "seen by" not in client.get(QUALITY).text
    assert send(user, ours) == 200
    assert "seen by ann" in client.get(QUALITY).text and "known, see the ticket" in client.get(TABLE).text
    client.cookies = {}


@pytest.mark.parametrize(
    ("plugin", "page", "route"),
    [(QualityPagePlugin, QUALITY, "quality"), (StreamsPagePlugin, STREAMS, "streams")],
)
def test_airflow_takes_a_page_into_its_navigation(plugin: type[AirflowPlugin], page: str, route: str) -> None:
    from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse

    [view] = [ExternalViewResponse(**view) for view in plugin.external_views]

    assert f"/{view.href}" == page
    assert (view.destination, view.url_route, view.nav_top_level) == ("nav", route, True)


@pytest.mark.parametrize("page", ["quality", "streams"])
def test_a_plugin_costs_other_parts_of_airflow_nothing(page: str) -> None:
    view = {"quality": "quality_view", "streams": "stream_view"}[page]
    heavy = {"fastapi", "jinja2.environment", "deltalake", "pyarrow", f"stateward.pages.{view}"}
    program = (
        "import sys, airflow.plugins_manager\nbefore = set(sys.modules)\n"
        f"import stateward.airflow.plugins.{page}_page\n"
        f"print(sorted({heavy} & (set(sys.modules) - before)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout.splitlines()[-1] == "[]"
