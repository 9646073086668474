"""Two people with roles of their own, in a real Airflow with the FAB auth manager: who sees and does what.

This Airflow has a base path, as behind a reverse proxy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from stateward.platform.parts.ports import free_ports
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.airflow.conftest import ROOT
from tests.support.airflow_server import api_server
from tests.support.pages.browser import CHROMIUM, opened_page
from tests.support.pages.sample_quality import week

pytestmark = pytest.mark.airflow

PASSWORD = "a password of a test"
# Ann looks at one stream and into its state; Bob operates another.
ROLES = {
    "ann": {
        "can_read": ["DAG:stream_user_sessions", "DAG:state_inspection", "Website"],
        "can_edit": ["DAG:state_inspection"],
        "can_create": ["DAG Run:state_inspection"],
    },
    "bob": {
        "can_read": ["DAG:stream_fraud_watch", "DAG:state_operations", "DAG:quality_shared", "Website"],
        "can_edit": ["DAG:state_operations"],
        "can_create": ["DAG Run:state_operations"],
    },
}
# As `airflow roles` and `airflow users` do it, in one process in place of ten.
MAKE_USERS = """
import json, sys
from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
with get_application_builder() as builder:
    manager = builder.sm
    for name, rights in json.loads(sys.argv[1]).items():
        role = manager.add_role(name)
        for action, resources in rights.items():
            for resource in resources:
                manager.add_permission_to_role(role, manager.create_permission(action, resource))
        assert manager.add_user(name, name, name, f"{name}@example.org", role, sys.argv[2])
    admin = manager.find_role("Admin")
    assert manager.add_user("root", "root", "root", "root@example.org", admin, sys.argv[2])
"""
REPORTS = {
    "user_sessions": "validations/sessions/user_sessions_v1-2_manual__1_1/20260101T000000Z/page.html",
    "fraud_watch": "validations/fraud_alerts/fraud_watch_v1-2_manual__1_1/20260101T000000Z/page.html",
    "shared": "validations/dead_letters/shared_v1-2_manual__1_1/20260101T000000Z/page.html",
}


@dataclass(frozen=True)
class Server:
    """Airflow's API server, and what its people ask of it."""

    url: str
    tokens: dict[str, str] = field(default_factory=dict)

    def ask(self, person: str, path: str, **sent: Any) -> httpx.Response:
        """Send a request as a person does; with a body it is a POST."""
        with httpx.Client(base_url=self.url, timeout=60) as client:
            if person not in self.tokens:
                login = {"username": person, "password": PASSWORD}
                answer = client.post("/auth/token", json=login).raise_for_status()
                self.tokens[person] = answer.json()["access_token"]
            headers = {"Authorization": f"Bearer {self.tokens[person]}"}
            return client.request("POST" if sent else "GET", path, headers=headers, **sent)

    def sees(self, person: str, path: str) -> int:
        """The status of a page for a person."""
        return self.ask(person, path).status_code

    def triggers(self, person: str, dag_id: str, verb: str) -> int:
        """The status of a run that a person triggers."""
        conf = {"verb": verb, "stream": "user_sessions"}
        body = {"logical_date": None, "conf": conf}
        return self.ask(person, f"/api/v2/dags/{dag_id}/dagRuns", json=body).status_code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("access")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/airflow"
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{home}/airflow/logs",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__SECRET_KEY": "a secret of a test",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of a test " * 4,
        "PYTHONPATH": str(ROOT),
        "STATEWARD_HOME": str(home / "stateward"),
    }
    (home / "airflow").mkdir()
    write_pages(Settings(home=home / "stateward", data=f"file://{home}/stateward/data"))
    airflow = [sys.executable, "-m", "airflow"]
    for command in (["db", "migrate"], ["fab-db", "migrate"], ["dags", "reserialize"]):
        run([*airflow, *command], environment)
    run([*airflow, "sync-perm", "--include-dags"], environment)

    run([sys.executable, "-c", MAKE_USERS, json.dumps(ROLES), PASSWORD], environment)
    with api_server(home, environment, port, lambda: answers(url)):
        yield Server(url)


def run(command: list[str], environment: dict[str, str]) -> None:
    """Run a command of Airflow's to its end."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def answers(url: str) -> bool:
    """Whether the server does."""
    try:
        return httpx.get(f"{url}/api/v2/version", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def write_pages(settings: Settings) -> None:
    """Validations of a week, reports, and pages of operations on two streams."""
    week(settings, datetime.now(UTC))
    layout = Layout.of(settings)
    for stream in ("user_sessions", "fraud_watch"):
        for verb in ("inspect", "restore"):
            page = f"{layout.operation_uri(stream, f'20260101T000000Z-{verb}')}/index.html"
            write(page, f"<p>{verb} of {stream}</p>")
    for path in ("index.html", "expectations/sessions.html", *REPORTS.values()):
        write(f"{layout.data_docs_uri}/{path}", f"<p>{path}</p>")


def write(uri: str, text: str) -> None:
    path = Path(uri.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_person_sees_the_streams_whose_dags_they_may_read(server: Server) -> None:
    streams = "/stateward/streams/index.html"
    for person, seen, hidden in (
        ("ann", "user_sessions", "fraud_watch"),
        ("bob", "fraud_watch", "user_sessions"),
    ):
        for page in (streams, "/stateward/quality/index.html", "/stateward/metrics"):
            text = server.ask(person, page).text
            assert seen in text and hidden not in text, (person, page)
    everything = server.ask("root", streams).text
    assert "user_sessions" in everything and "fraud_watch" in everything
    assert httpx.get(f"{server.url}{streams}").status_code == 401


@pytest.mark.parametrize(
    ("page", "ann", "bob"),
    [
        ("quality/table.html?stream=user_sessions&table=sessions", 200, 403),
        ("quality/table.html?stream=fraud_watch&table=fraud_alerts", 403, 200),
        ("quality/table.html?stream=shared&table=dead_letters", 403, 200),
        (f"data-docs/{REPORTS['user_sessions']}", 200, 403),
        (f"data-docs/{REPORTS['fraud_watch']}", 403, 200),
        (f"data-docs/{REPORTS['shared']}", 403, 200),
        ("data-docs/expectations/sessions.html", 200, 403),
        # The list names every stream's validations.
        ("data-docs/index.html", 403, 403),
        ("operations/user_sessions/20260101T000000Z-inspect/index.html", 200, 403),
        ("operations/user_sessions/20260101T000000Z-restore/index.html", 403, 403),
        ("operations/fraud_watch/20260101T000000Z-inspect/index.html", 403, 403),
        ("operations/fraud_watch/20260101T000000Z-restore/index.html", 403, 200),
        # The page of another stream by the way of one's own.
        ("operations/user_sessions/20260101T000000Z-inspect/../../fraud_watch/x/index.html", 404, 404),
        ("operations/user_sessions/%2e%2e/fraud_watch/20260101T000000Z-inspect/index.html", 404, 404),
        (f"data-docs/{REPORTS['user_sessions']}/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/index.html", 404, 404),
    ],
)
def test_a_page_is_for_those_who_may_read_its_dags(server: Server, page: str, ann: int, bob: int) -> None:
    path = f"/stateward/{page}"
    assert (server.sees("ann", path), server.sees("bob", path)) == (ann, bob)
    assert server.sees("root", path) == (404 if 404 in (ann, bob) else 200)
    refused = server.ask("ann" if ann == 403 else "bob", path)
    if refused.status_code == 403:
        assert "This page is for those who may read the DAG" in refused.json()["detail"]


def test_looking_and_changing_are_granted_apart(server: Server) -> None:
    assert server.triggers("ann", "state_inspection", "inspect") == 200
    assert server.triggers("ann", "state_inspection", "restore") == 400, "no verb of this DAG"
    assert server.triggers("ann", "state_operations", "restore") == 403
    assert server.triggers("ann", "state_operations", "inspect") == 403
    assert server.triggers("bob", "state_operations", "restore") == 200
    assert server.triggers("bob", "state_inspection", "inspect") == 403


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to look at the pages with")
def test_a_person_who_logs_in_with_a_browser_sees_the_same(server: Server) -> None:
    with opened_page() as page:
        # A person who is not logged in is sent to the login, and back.
        page.goto(f"{server.url}/stateward/streams/index.html")
        page.locator("#username").fill("ann")
        page.locator("#password").fill(PASSWORD)
        page.locator("input[type=submit], button[type=submit]").first.click()
        page.get_by_role("heading", name="Streams").wait_for()
        assert page.url == f"{server.url}/stateward/streams/index.html"
        assert page.get_by_role("heading", name="user_sessions").count() == 1
        assert page.get_by_role("heading", name="fraud_watch").count() == 0
        refused = page.goto(f"{server.url}/stateward/data-docs/{REPORTS['fraud_watch']}")
        assert refused is not None and refused.status == 403
