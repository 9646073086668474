"""Spark's UI behind Airflow's login. A small server stands in for Spark; tests/e2e opens the real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from stateward.airflow.plugins.spark_ui import SparkUiPlugin
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Application, Control, Launch
from stateward.contract.stream_status import DriverState, Status
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.support.http_server import answering
from tests.support.pages.signed_in import signed_in

pytestmark = pytest.mark.airflow

STREAM = "user_sessions"
PAGE = f"/stateward/spark/{STREAM}"


class _Spark(BaseHTTPRequestHandler):
    """Answers with what was asked for, and redirects its first page as Spark does."""

    def do_GET(self) -> None:
        base = self.headers["X-Forwarded-Context"]
        if self.path == "/":
            self.send_response(302)
            self.send_header("Location", f"http://{self.headers['Host']}{base}/jobs/")
            self.end_headers()
            return
        body = json.dumps({"path": self.path, "base": base, "cookie": self.headers["Cookie"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Set-Cookie", "spark=1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay quiet."""


@pytest.fixture
def spark() -> Iterator[str]:
    with answering(_Spark) as address:
        yield address


@pytest.fixture
def client(
    tmp_path: Path,
    metadata_database: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Any]:
    """The application, mounted as Airflow mounts it, and a user's token as its cookie.

    Its parameter is Airflow's base path.
    """
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    outer = FastAPI(root_path=getattr(request, "param", ""))
    [mount] = SparkUiPlugin.fastapi_apps
    outer.mount(mount["url_prefix"], mount["app"])
    with signed_in() as token:
        yield TestClient(outer, follow_redirects=False, cookies={"_token": token})


def reported(ui: str | None, state: DriverState = "running") -> None:
    now = datetime.now(UTC)
    write_json(
        Layout.of(Settings()).status_uri(STREAM), as_json(Status(STREAM, "1", state, now, now, spark_ui=ui))
    )


def test_a_page_of_spark_is_passed_on_without_cookies_in_either_direction(client: Any, spark: str) -> None:
    reported(spark)
    answer = client.get(f"{PAGE}/StreamingQuery/statistics/?id=7")
    assert answer.json() == {"path": "/StreamingQuery/statistics/?id=7", "base": PAGE, "cookie": None}
    assert "set-cookie" not in answer.headers


def test_a_redirect_of_spark_stays_below_airflow(client: Any, spark: str) -> None:
    reported(spark)
    assert client.get(f"{PAGE}/").headers["location"] == f"{PAGE}/jobs/"


@pytest.mark.parametrize("client", ["/airflow"], indirect=True)
def test_spark_builds_its_links_below_airflows_base_path(client: Any, spark: str) -> None:
    reported(spark)
    page = f"/airflow{PAGE}"
    assert client.get(f"{page}/jobs/").json()["base"] == page
    assert client.get(f"{page}/").headers["location"] == f"{page}/jobs/"


def test_the_ui_of_a_driver_in_a_container_of_yarn_is_behind_yarns_own_proxy(client: Any, spark: str) -> None:
    reported(spark)
    now = datetime.now(UTC)
    application = Application("yarn", spark, "application_1_0001")
    launch = Launch("1", now, "h", "/l", application=application)
    control = Control(STREAM, "running", "1", now, launch=launch)
    write_json(Layout.of(Settings()).control_uri(STREAM), as_json(control))
    answer = client.get(f"{PAGE}/jobs/")
    assert answer.headers["location"] == f"{spark}/proxy/application_1_0001/jobs/"


def test_it_is_for_people_who_are_logged_in(client: Any, spark: str) -> None:
    reported(spark)
    client.cookies.clear()
    assert client.get(f"{PAGE}/jobs/").status_code == 401


@pytest.mark.parametrize(
    ("ui", "state", "said"),
    [
        (None, "starting", "has no UI of Spark (yet)"),
        ("http://127.0.0.1:1", "stopped", "expected a driver that runs, found none"),
        ("file:///etc/passwd", "running", "has no UI of Spark (yet)"),
    ],
)
def test_without_a_ui_the_page_says_what_to_do(
    client: Any, ui: str | None, state: DriverState, said: str
) -> None:
    reported(ui, state)
    answer = client.get(f"{PAGE}/jobs/")
    assert answer.status_code == 404
    assert said in answer.json()["detail"] and STREAM in answer.json()["detail"]


def test_a_ui_that_does_not_answer_is_a_bad_gateway(client: Any) -> None:
    reported("http://127.0.0.1:1")
    answer = client.get(f"{PAGE}/jobs/")
    assert answer.status_code == 502
    assert "does not answer" in answer.json()["detail"]
