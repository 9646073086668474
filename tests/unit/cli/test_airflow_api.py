"""The client of Airflow's REST API below a prefix, and beside what is no such API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from stateward.cli.streams.airflow_api import AirflowApi, AirflowApiError
from tests.support.http_server import answering

DAG = "/airflow/api/v2/dags/stream_s"


class _Airflow(BaseHTTPRequestHandler):
    """One DAG of an Airflow whose base path is `/airflow`; other paths are answered with its UI."""

    def do_GET(self) -> None:
        if self.path == DAG:
            self._answer(200, "application/json", json.dumps({"is_paused": False}))
        elif self.path.startswith("/airflow/api/"):
            self._answer(404, "application/json", "{}")
        else:
            self._answer(200, "text/html; charset=utf-8", "<title>Airflow</title>")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/airflow/auth/token":
            self._answer(201, "application/json", json.dumps({"access_token": "t"}))
        elif self.path.startswith("/plain/"):
            self._answer(301, "text/html", "", Location="https://data.example.com/airflow/auth/token")
        else:
            self._answer(405, "application/json", '{"detail": "Method Not Allowed"}')

    def _answer(self, status: int, kind: str, text: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Stay quiet."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with answering(_Airflow) as address:
        yield address


@pytest.mark.parametrize("path", ["/airflow", "/airflow/"])
def test_the_login_and_every_request_keep_the_prefix(host: str, path: str) -> None:
    with AirflowApi(f"{host}{path}", "ann", "secret") as api:
        assert api.has_dag("stream_s") and not api.is_paused("stream_s")
        assert not api.has_dag("stream_t")


def test_without_the_prefix_the_ui_answers_and_the_message_names_the_setting(host: str) -> None:
    with AirflowApi(host, token="t") as api, pytest.raises(AirflowApiError) as refused:
        api.has_dag("stream_s")
    assert str(refused.value) == (
        f"expected JSON of Airflow's API from GET {host}/api/v2/dags/stream_s,"
        " found text/html; charset=utf-8. Set STATEWARD_AIRFLOW_URL to `base_url` of Airflow's `[api]`,"
        " with its path."
    )
    with pytest.raises(AirflowApiError, match="answered 405 to POST http://127"):
        AirflowApi(host, "ann", "secret")


def test_a_redirect_of_a_proxy_is_named(host: str) -> None:
    with pytest.raises(AirflowApiError) as refused:
        AirflowApi(f"{host}/plain", "ann", "secret")
    assert "found a redirect to https://data.example.com/airflow/auth/token." in str(refused.value)


def test_a_server_that_does_not_answer_is_named_at_every_request() -> None:
    url = "https://127.0.0.1:1/airflow"
    with AirflowApi(url, token="t") as api, pytest.raises(AirflowApiError) as refused:
        api.has_dag("stream_s")
    assert str(refused.value).startswith(f"Airflow at {url}/ does not answer")
