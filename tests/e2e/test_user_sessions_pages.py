"""The pages a person looks at, in a real browser: the supervised stream in Airflow's grid, and its report.

Screenshots go to SCREENSHOTS when it names a folder (tests/support/pages/pictures.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin

import pytest

from proof.demo.scenario import EVENTS
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.full import ci_full
from tests.support.pages.browser import CHROMIUM, keep, logged_in
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [
    pytest.mark.e2e,
    ci_full,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to look at the pages with"),
]

QUALITY_DAG = "quality_user_sessions"


@pytest.fixture(scope="module")
def stream(platform: Installation) -> LiveStream:
    """The stream, supervised."""
    stream = LiveStream("user_sessions", platform)
    stream.ensure_running()
    return stream


@pytest.fixture(scope="module")
def validated(stream: LiveStream) -> tuple[str, str]:
    """A run of the quality DAG and a task of it that has validated a table of the stream."""
    if not stream.rows("sessions", ["session_id"]):
        assert stream.replay(EVENTS, "--tick").wait(timeout=PATIENCE_S) == 0
    with stream.airflow() as api:

        def succeeded() -> tuple[str, str] | None:
            done = [run for run, state in api.runs(QUALITY_DAG).items() if state == "success"]
            for run in reversed(done):
                for task, state in api.task_states(QUALITY_DAG, run).items():
                    if state == "success":
                        return run, task
            return None

        # A row is written, and a Spark job validates it: each may take its time on a busy machine.
        return wait_until(
            succeeded, 2 * PATIENCE_S, lambda: f"a validation succeeds: {api.runs(QUALITY_DAG)}", poll_s=2
        )


@pytest.fixture(scope="module")
def page(platform: Installation) -> Iterator[Page]:
    """A browser that is logged in as a person would be."""
    with logged_in(platform) as page:
        yield page


def in_navigation(page: Page, name: str) -> Locator:
    """A link in Airflow's navigation; the rest of a page may have others with the word in it."""
    return page.get_by_test_id("nav-sidebar").get_by_role("link", name=name, exact=True)


def test_the_grid_shows_the_supervised_stream(stream: LiveStream, page: Page) -> None:
    page.goto(f"{stream.installation.settings.airflow_url}/dags/{stream.dag}")
    page.get_by_text("supervise").first.wait_for()
    page.get_by_text("deploy").first.wait_for()


def test_the_report_opens_from_its_task(stream: LiveStream, page: Page, validated: tuple[str, str]) -> None:
    run, task = validated
    dag = f"{stream.installation.settings.airflow_url}/dags/{QUALITY_DAG}"
    page.goto(f"{dag}/runs/{quote(run, safe='')}/tasks/{task}/details")
    page.get_by_role("link", name="Data Docs").wait_for()
    keep(page, "quality-links")
    page.get_by_role("link", name="Data Docs").click()
    page.get_by_text("Expectation Suite").first.wait_for()
    assert page.get_by_text("Succeeded").count() or page.get_by_text("passed").count()


def test_the_operators_page_is_in_airflows_navigation(stream: LiveStream, page: Page) -> None:
    """Inside of Airflow's frame, in Airflow's theme, fresh without being asked, and with a way out."""
    page.goto(stream.installation.settings.airflow_url)
    in_navigation(page, "Streams").click()
    frame = page.frame_locator("iframe[title='Streams']")
    card = frame.locator(f"article#{stream.name}")
    card.locator(".badge.good").wait_for()
    card.locator("svg .line").first.wait_for(state="attached")
    said = frame.locator(".at").inner_text()
    page.evaluate("localStorage.setItem('theme', 'dark')")
    frame.locator(":root[data-theme='dark']").wait_for(state="attached")
    keep(page, "streams-in-airflow")
    frame.get_by_text(said, exact=True).wait_for(state="detached")
    page.evaluate("localStorage.removeItem('theme')")
    card.get_by_role("link", name="DAG").click()
    page.wait_for_url(f"**/dags/{stream.dag}")
    page.get_by_text("supervise").first.wait_for()


def test_sparks_own_ui_opens_from_the_streams_card(stream: LiveStream, page: Page) -> None:
    page.goto(f"{stream.installation.settings.airflow_url}/stateward/streams/index.html")
    page.locator(f"article#{stream.name}").get_by_role("link", name="Spark UI").click()
    page.wait_for_url(f"**/stateward/spark/{stream.name}/jobs/")
    page.get_by_role("link", name="Structured Streaming").click()
    page.get_by_text("Active Streaming Queries").first.wait_for()
    keep(page, "spark-ui")
    page.get_by_role("link", name="Executors").click()
    page.get_by_text("driver", exact=True).first.wait_for()
    assert page.get_by_text("(kill)").count() == 0


def test_the_quality_overview_opens_from_navigation_and_task(
    stream: LiveStream, page: Page, validated: tuple[str, str]
) -> None:
    page.goto(stream.installation.settings.airflow_url)
    in_navigation(page, "Quality").click()
    frame = page.frame_locator("iframe[title='Quality']")
    table = frame.locator("#user_sessions-sessions").get_by_role("link", name="sessions").first
    table.wait_for()
    keep(page, "quality-in-airflow")
    table.click()
    frame.get_by_role("heading", name="Reconciliations").wait_for()
    run, task = validated
    with stream.airflow() as api:
        link = api.task_links(QUALITY_DAG, run, task)["Quality overview"]
    page.goto(urljoin(stream.installation.settings.airflow_url, link))
    page.get_by_role("heading", name="Expectations").wait_for()


def test_a_stranger_sees_no_report(stream: LiveStream) -> None:
    import httpx

    for page in ("data-docs", "streams", "quality"):
        url = f"{stream.installation.settings.airflow_url}/stateward/{page}/index.html"
        answer = httpx.get(url, trust_env=False)
        assert answer.status_code in (302, 303, 307, 401), answer.status_code
