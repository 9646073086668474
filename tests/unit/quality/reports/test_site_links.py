"""Data Docs as they are built: each link leads to a page of the site, wherever it is served."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.pages.built_docs import build_docs
from tests.support.pages.links import follow, require_relative

BASE = "https://data.example.com/airflow"
SERVED = f"{BASE}/stateward/data-docs"


def test_each_link_stays_on_the_site(tmp_path: Path) -> None:
    report = build_docs(tmp_path / "docs", tmp_path / "context")

    def get(url: str) -> httpx.Response:
        page = tmp_path / "docs" / url.removeprefix(f"{SERVED}/")
        assert page.is_file(), url
        return httpx.Response(200, html=page.read_text())

    found = follow(get, BASE, [f"{SERVED}/index.html"], read="/stateward/data-docs/")
    assert set(found) == {f"{SERVED}/{page}" for page in ("index.html", "expectations/sessions.html", report)}
    for html in found.values():
        require_relative(html)
