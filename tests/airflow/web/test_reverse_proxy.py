"""A real API server with a base path, behind a proxy with another host name and port that ends TLS."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest

from stateward.cli.streams.airflow_api import AirflowApi, AirflowApiError
from stateward.platform.parts.ports import free_ports
from tests.airflow.conftest import ROOT
from tests.support.airflow_server import api_server
from tests.support.full import ci_full
from tests.support.pages.browser import CHROMIUM, opened_page
from tests.support.pages.built_docs import write_site
from tests.support.pages.links import follow
from tests.support.pages.reverse_proxy import (
    NGINX,
    Certificate,
    make_certificate,
    nginx,
    serving,
    small_proxy,
)

pytestmark = [pytest.mark.airflow, ci_full]

PREFIX, USER, PASSWORD = "/airflow", "ann", "a password of a test"
STREAMS = "/stateward/streams/index.html"


@dataclass(frozen=True)
class Server:
    """The API server, and the address that people know.

    Attributes:
        target: Where the proxy reaches it.
        base_url: Airflow's `[api] base_url`: the proxy's host and port, and the prefix.
        certificate: What the proxy shows.
    """

    target: str
    base_url: str
    certificate: Certificate

    @property
    def port(self) -> int:
        """The port at which the proxy is expected."""
        return urlsplit(self.base_url).port or 443

    def answers(self) -> bool:
        """Whether the server does."""
        try:
            return httpx.get(f"{self.target}{PREFIX}/api/v2/version", timeout=5).status_code == 200
        except httpx.TransportError:
            return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, metadata_database: Path) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("proxied")
    api_port, port = free_ports(2)
    made = Server(f"http://127.0.0.1:{api_port}", f"https://localhost:{port}{PREFIX}", make_certificate(home))
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({USER: PASSWORD}))
    write_site(home)
    environment = {
        **os.environ,
        "AIRFLOW__API__BASE_URL": made.base_url,
        "AIRFLOW__API__SECRET_KEY": "a secret of a test",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of a test " * 4,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "PYTHONPATH": str(ROOT),
        "STATEWARD_HOME": str(home),
        "STATEWARD_STREAMS": str(home / "streams"),
    }
    with api_server(home, environment, api_port, made.answers, "--proxy-headers"):
        yield made


@pytest.fixture(
    params=["small", pytest.param("nginx", marks=pytest.mark.skipif(not NGINX, reason="no nginx"))]
)
def proxied(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Server]:
    """The server behind a proxy."""
    if request.param == "nginx":
        with nginx(tmp_path, server.port, PREFIX, server.target, server.certificate):
            yield server
    else:
        with serving(small_proxy(PREFIX, server.target), server.port, server.certificate):
            yield server


@pytest.fixture
def client(proxied: Server) -> Iterator[httpx.Client]:
    """A person's program, which trusts the proxy's certificate."""
    trusted = httpx.create_ssl_context()
    trusted.load_verify_locations(proxied.certificate.file)
    with httpx.Client(verify=trusted, trust_env=False, timeout=60) as made:
        yield made


def log_in(client: httpx.Client, base_url: str) -> str:
    """Log in as Airflow's page of the login does, and return the token that it keeps as a cookie."""
    answer = client.post(f"{base_url}/auth/token", json={"username": USER, "password": PASSWORD})
    return str(answer.raise_for_status().json()["access_token"])


def test_a_person_logs_in_and_every_link_leads_to_a_page_below_the_prefix(
    proxied: Server, client: httpx.Client
) -> None:
    base_url = proxied.base_url
    page = f"{base_url}{STREAMS}?hours=24"
    refused = client.get(page, headers={"Accept": "text/html"})
    login = urljoin(page, refused.headers["location"])
    assert (refused.status_code, urlsplit(login).path) == (303, f"{PREFIX}/auth/login")
    assert client.get(login).status_code == 200
    assert parse_qs(urlsplit(login).query)["next"] == [f"{PREFIX}{STREAMS}?hours=24"]

    client.headers["Cookie"] = f"_token={log_in(client, base_url)}"
    plugins = client.get(f"{base_url}/api/v2/plugins").raise_for_status().json()["plugins"]
    views = [view["href"] for plugin in plugins for view in plugin["external_views"]]
    ours = [href for href in views if href.startswith("stateward/")]
    assert len(ours) == 3
    # Airflow's UI has its base path as its base.
    starts = [page, *(urljoin(f"{base_url}/", href) for href in ours)]
    found = follow(client.get, base_url, [*starts, f"{base_url}/stateward/metrics"], read="/stateward/")
    paths = {urlsplit(url).path.removeprefix(PREFIX) for url in found}
    assert {"/dags/stream_user_sessions", "/stateward/quality/table.html"} <= paths
    assert "stateward_stream_up" in found[f"{base_url}/stateward/metrics"]
    for kind in ("/stateward/operations/", "/stateward/data-docs/validations/"):
        assert [path for path in paths if path.startswith(kind)], kind


def test_a_note_is_saved_and_the_commands_reach_airflow(
    proxied: Server, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    base_url = proxied.base_url
    client.headers["Cookie"] = f"_token={log_in(client, base_url)}"
    about = {"stream": "user_sessions", "table": "sessions", "note": "seen by way of the proxy"}
    table = f"{base_url}/stateward/quality/table.html?stream=user_sessions&table=sessions"
    to = urljoin(table, "acknowledge")
    assert client.post(to, json=about, headers={"X-Stateward": "page"}).status_code == 200
    assert about["note"] in client.get(table).text

    with pytest.raises(AirflowApiError, match="certificate"):
        AirflowApi(base_url, USER, PASSWORD)
    monkeypatch.setenv("SSL_CERT_FILE", str(proxied.certificate.file))
    with AirflowApi(base_url, USER, PASSWORD) as api:
        assert api.has_dag("stream_user_sessions") and not api.has_dag("none")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to look at the pages with")
def test_a_browser_is_led_to_the_login_and_back_and_out_of_airflows_frame(proxied: Server) -> None:
    base_url = proxied.base_url
    with opened_page(any_certificate=True) as page:
        page.goto(f"{base_url}{STREAMS}?hours=24")
        page.get_by_label("Username").fill(USER)
        page.get_by_label("Password").first.fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Streams").wait_for()
        assert page.url == f"{base_url}{STREAMS}?hours=24"

        page.goto(f"{base_url}/plugin/streams")
        inside = page.frame_locator("iframe")
        inside.get_by_role("heading", name="user_sessions").wait_for()
        inside.get_by_role("link", name="DAG").first.click()
        page.wait_for_url(f"{base_url}/dags/stream_*")
