"""The pages below Airflow's base path; the server knows neither the scheme nor the host of its proxy."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from airflow.plugins_manager import AirflowPlugin

import stateward.airflow.plugins
from stateward.airflow.web.logged_in import LateApp
from stateward.project.settings import Settings
from stateward.rendering import page_address
from tests.support.pages.built_docs import write_site
from tests.support.pages.links import follow
from tests.support.pages.signed_in import signed_in

pytestmark = pytest.mark.airflow

BASE = "https://data.example.com/airflow"
PREFIX = urlsplit(BASE).path


def plugins() -> list[type[AirflowPlugin]]:
    """All plugins of the library."""
    names = [one.name for one in pkgutil.iter_modules(stateward.airflow.plugins.__path__)]
    modules = [import_module(f"stateward.airflow.plugins.{name}") for name in names]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    return [one for one in found if issubclass(one, AirflowPlugin) and one is not AirflowPlugin]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, metadata_database: Path) -> Iterator[tuple[Any, str]]:
    """The plugins mounted as Airflow mounts them with a base path, its UI behind them, and a user's token."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as environment, signed_in() as token:
        environment.setenv("STATEWARD_HOME", str(home))
        environment.setenv("STATEWARD_STREAMS", str(home / "streams"))
        write_site(home)
        outer = FastAPI(root_path=PREFIX)
        for plugin in plugins():
            for mount in plugin.fastapi_apps:
                # Built here, and not by the first test of the session that opens a page of the plugin.
                outer.mount(mount["url_prefix"], LateApp(mount["app"]._create))
            for one in plugin.fastapi_root_middlewares:
                outer.add_middleware(one["middleware"])

        @outer.get("/{rest:path}")
        def ui(rest: str) -> str:
            return "Airflow's UI"

        yield TestClient(outer, base_url="http://10.0.0.7:8080", follow_redirects=False), token


def getter(client: Any, token: str) -> Callable[[str], httpx.Response]:
    """How a proxy passes on what a person opens: the whole path, and nothing else."""

    def get(url: str) -> httpx.Response:
        parts = urlsplit(url)
        asked = f"{parts.path}?{parts.query}" if parts.query else parts.path
        answer: httpx.Response = client.get(asked, headers={"Cookie": f"_token={token}"})
        return answer

    return get


def test_every_page_is_reached_and_no_link_leaves_the_prefix(server: tuple[Any, str]) -> None:
    views = [view for plugin in plugins() for view in plugin.external_views]
    # As Airflow's UI resolves them: its pages have the base path as their base.
    starts = [urljoin(f"{BASE}/", view["href"]) for view in views]
    assert len(starts) == 3
    found = follow(getter(*server), BASE, starts, read="/stateward/")
    pages = {urlsplit(url).path.removeprefix(PREFIX) for url in found}
    assert {*(urlsplit(url).path.removeprefix(PREFIX) for url in starts)} <= pages
    reached = ("/dags/stream_user_sessions", "/dags/quality_user_sessions", "/stateward/quality/table.html")
    assert {*reached, "/stateward/data-docs/expectations/sessions.html"} <= pages
    for kind in (page_address.OPERATIONS, f"{page_address.DATA_DOCS}/validations"):
        assert [page for page in pages if page.startswith(f"{kind}/")], kind


@pytest.mark.parametrize("page", ["streams/index.html?hours=24", "data-docs/index.html", "metrics"])
def test_the_login_leads_back_to_the_path_of_the_page(server: tuple[Any, str], page: str) -> None:
    client, _ = server
    answer = client.get(f"{PREFIX}/stateward/{page}", headers={"Accept": "text/html"})
    assert answer.status_code == 303
    [back] = parse_qs(urlsplit(answer.headers["location"]).query)["next"]
    assert back in (f"{PREFIX}/stateward/{page}", f"{PREFIX}/stateward/{page}/")


@pytest.mark.parametrize(
    ("asked", "leads_to"),
    [("streams/", "streams/index.html"), ("quality/", "quality/index.html"), ("spark/s", "spark/s/")],
)
def test_a_folder_leads_to_its_page(server: tuple[Any, str], asked: str, leads_to: str) -> None:
    url = f"{BASE}/stateward/{asked}"
    answer = getter(*server)(url)
    assert urljoin(url, answer.headers["location"]) == f"{BASE}/stateward/{leads_to}"


def test_no_redirect_names_the_host_that_this_server_knows(server: tuple[Any, str]) -> None:
    for page in ("streams/index.html/", "quality/table.html/", "data-docs/expectations"):
        assert getter(*server)(f"{BASE}/stateward/{page}").status_code == 404


def test_the_metrics_are_below_the_prefix(server: tuple[Any, str]) -> None:
    for path in (page_address.METRICS, f"{page_address.METRICS}/"):
        assert "stateward_stream_up" in getter(*server)(f"{BASE}{path}").text


def test_a_link_of_a_task_and_of_a_message_has_the_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from stateward.airflow.operators.quality_report import QualityReport
    from stateward.airflow.operators.validate_table import QualityOverviewLink

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"{BASE}/")
    table: Any = SimpleNamespace(stream="s", table="t")
    key: Any = None
    page = QualityOverviewLink().get_link(table, ti_key=key)
    assert page == "/airflow/stateward/quality/table.html?stream=s&table=t"
    report = QualityReport("s", "t", 1, 2, 3, (), "validations/t/r/a page.html")
    said = report.message(Settings().airflow_url)
    assert f"Report: {BASE}/stateward/data-docs/validations/t/r/a%20page.html" in said
