"""Pages in a real browser: a value that has become HTML does nothing, a note is saved, sample data is shown.

Screenshots go to SCREENSHOTS when it names a folder (tests/support/pages/pictures.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateward.airflow.plugins.data_docs import data_docs_app
from stateward.airflow.web.quality_app import quality_app
from stateward.airflow.web.streams_app import streams_app
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.rendering.page_address import DATA_DOCS, QUALITY, STREAMS
from tests.support.pages.browser import CHROMIUM, keep, opened_browser
from tests.support.pages.reverse_proxy import serving
from tests.support.pages.sample_quality import week
from tests.support.pages.sample_streams import installation, write
from tests.support.pages.signed_in import signed_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to look at the pages with"),
]

PAGE = """<!DOCTYPE html><title>report</title>
<p id="value">a value</p>
<meta http-equiv="refresh" content="0;url=expectations/sessions.html">
<script>document.title = "it ran"</script>
<img src="none.png" onerror="document.title = 'it ran'">
<a href="expectations/sessions.html">the next page</a>
"""
OTHER = "<!DOCTYPE html><title>other</title><p>The other page.</p>"


@dataclass(frozen=True)
class Served:
    """The pages, with Stateward's headers and without any, and the token of a person."""

    guarded: str
    bare: str
    token: str


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata_database: Path) -> Iterator[Served]:
    from fastapi import FastAPI
    from starlette.staticfiles import StaticFiles

    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    folder = Path(Layout.of().data_docs_uri.removeprefix("file://"))
    (folder / "expectations").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "expectations" / "sessions.html").write_text(OTHER)
    outer = FastAPI()
    outer.mount(DATA_DOCS, data_docs_app())
    outer.mount(QUALITY, quality_app())
    outer.mount(STREAMS, streams_app())

    @outer.get("/frame")
    def frame() -> object:
        from fastapi.responses import HTMLResponse

        # As Airflow shows the pages of plugins.
        return HTMLResponse(f'<iframe src="{DATA_DOCS}/index.html"></iframe>')

    with (
        signed_in("ann", "user") as token,
        serving(outer) as guarded,
        serving(StaticFiles(directory=folder)) as bare,
    ):
        yield Served(guarded, bare, token)


@pytest.fixture
def browser() -> Iterator[Browser]:
    with opened_browser() as made:
        yield made


def page_of(browser: Browser, served: Served, width: int, height: int) -> Page:
    """A page of a person who is logged in."""
    context = browser.new_context(viewport={"width": width, "height": height})
    context.add_cookies([{"name": "_token", "value": served.token, "url": served.guarded, "sameSite": "Lax"}])
    return context.new_page()


def test_a_value_that_has_become_html_does_nothing(served: Served, browser: Browser) -> None:
    framed = page_of(browser, served, 1400, 900)
    framed.goto(f"{served.guarded}/frame")
    inner = framed.frames[1]
    inner.get_by_text("a value").wait_for()
    # The same page without the headers is gone in that time, so that this one would be, too.
    bare = browser.new_page()
    bare.goto(f"{served.bare}/index.html")
    bare.get_by_text("The other page.").wait_for()

    assert inner.url.endswith("/stateward/data-docs/index.html")
    assert inner.title() == "report"
    inner.get_by_text("the next page").click()
    inner.get_by_text("The other page.").wait_for()


def test_a_person_acknowledges_the_failures_of_a_table(served: Served, browser: Browser) -> None:
    week(Settings(), datetime.now(UTC))
    page = page_of(browser, served, 1400, 900)
    page.goto(f"{served.guarded}{QUALITY}/table.html?stream=user_sessions&table=sessions")
    page.get_by_text("Acknowledge the failures").click()
    page.locator("#note").fill("known, <b>since the release</b>")
    page.get_by_role("button", name="Save").click()
    page.locator("#said").get_by_text("known, <b>since the release</b>").wait_for()

    page.goto(f"{served.guarded}{QUALITY}/index.html")
    page.get_by_text("seen by ann").wait_for()


@pytest.mark.parametrize(
    ("picture", "shown"),
    [
        ("streams-healthy", "is held by"),
        ("streams-lagging", "records behind"),
        ("streams-failed", "restarted 5 times"),
    ],
)
def test_a_day_of_streams_is_shown(
    served: Served, browser: Browser, monkeypatch: pytest.MonkeyPatch, picture: str, shown: str
) -> None:
    home = Settings().home
    monkeypatch.setenv("STATEWARD_STREAMS", str(home / "streams"))
    write(installation(home, datetime.now(UTC)), picture.removeprefix("streams-"))
    page = page_of(browser, served, 1500, 800)
    page.goto(f"{served.guarded}{STREAMS}/index.html")
    page.get_by_text(shown).first.wait_for()
    page.locator("svg .line").first.wait_for(state="attached")
    keep(page, picture, whole=True)


def test_a_week_of_validations_is_shown(served: Served, browser: Browser) -> None:
    week(Settings(), datetime.now(UTC))
    page = page_of(browser, served, 1400, 900)
    page.goto(f"{served.guarded}{QUALITY}/index.html")
    page.get_by_text("duration_is_not_negative").first.wait_for()
    keep(page, "quality-overview", whole=True)
    page.locator("#user_sessions-sessions").get_by_role("link", name="sessions").first.click()
    page.get_by_role("columnheader", name="Kafka offsets").first.wait_for()
    page.set_viewport_size({"width": 1400, "height": 1300})
    keep(page, "quality-table")
