"""The pages of Data Docs: who may read them, and what is served."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from stateward.airflow.plugins.data_docs import DataDocsPlugin, data_docs_app
from stateward.contract import storage
from stateward.contract.storage import write_text
from stateward.project.layout import Layout
from tests.airflow.conftest import ROOT
from tests.support.pages.signed_in import signed_in

pytestmark = pytest.mark.airflow


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    layout = Layout.of()
    folder = Path(layout.data_docs_uri.removeprefix("file://"))
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<h1>reports</h1>")
    (folder.parent / "secret.txt").write_text("secret")
    (folder / "way out").symlink_to(folder.parent / "secret.txt")
    return folder


@pytest.fixture
def on_other_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STATEWARD_DATA", f"memory://{tmp_path.name}")
    uri = Layout.of().data_docs_uri
    write_text(f"{uri}/index.html", "<h1>reports</h1>")
    write_text(f"{uri.rpartition('/')[0]}/secret.txt", "secret")
    return uri


@pytest.fixture(params=["docs", "on_other_storage"])
def server(request: pytest.FixtureRequest, metadata_database: Path) -> Iterator[tuple[Any, str]]:
    """The plugin mounted as Airflow mounts it, with Airflow's own authentication, and a user's token."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    request.getfixturevalue(request.param)
    outer = FastAPI()
    [mount] = DataDocsPlugin.fastapi_apps
    # A mounted application is built once, for the folder of its first request.
    outer.mount(mount["url_prefix"], data_docs_app())
    with signed_in() as token:
        yield TestClient(outer, follow_redirects=False), token


def test_pages_are_for_people_who_are_logged_in(server: tuple[Any, str]) -> None:
    client, token = server
    page = "/stateward/data-docs/index.html"
    assert client.get(page).status_code == 401
    assert client.get(page, headers={"Authorization": "Bearer forged"}).status_code == 403
    sent_to_login = client.get(page, headers={"Accept": "text/html"})
    assert sent_to_login.status_code == 303
    assert "/login?next=" in sent_to_login.headers["location"]
    answer = client.get(page, cookies={"_token": token})
    assert (answer.status_code, answer.text) == (200, "<h1>reports</h1>")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert policy.startswith("sandbox allow-same-origin;")


def test_the_entry_in_the_navigation_is_found_below_any_base_path() -> None:
    [view], [mount] = DataDocsPlugin.external_views, DataDocsPlugin.fastapi_apps
    for base in ("http://localhost:18080/", "https://example.com/airflow/"):
        assert urljoin(base, view["href"]) == f"{base}{mount['url_prefix'].removeprefix('/')}/index.html"


@pytest.mark.parametrize(
    "path", ["..%2fsecret.txt", "%2e%2e/secret.txt", "%2fetc%2fpasswd", "way%20out", "none.html"]
)
def test_nothing_outside_of_the_folder_is_served(server: tuple[Any, str], path: str) -> None:
    client, token = server
    answer = client.get(f"/stateward/data-docs/{path}", cookies={"_token": token})
    assert answer.status_code == 404
    assert "secret" not in answer.text


@pytest.mark.parametrize("server", ["on_other_storage"], indirect=True)
def test_storage_that_does_not_answer_is_said(server: tuple[Any, str]) -> None:
    client, token = server

    def away(uri: str) -> bytes:
        raise OSError(f"connection refused: {uri}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "read_bytes", away)
        answer = client.get("/stateward/data-docs/index.html", cookies={"_token": token})
    assert (answer.status_code, answer.text) == (503, "Data Docs: the storage does not answer.")


def test_the_plugin_costs_other_parts_of_airflow_nothing() -> None:
    heavy = "{'fastapi', 'deltalake', 'pyarrow'}"
    program = f"import sys, stateward.airflow.plugins.data_docs\nprint(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert run.stdout.splitlines()[-1] == "[]"
