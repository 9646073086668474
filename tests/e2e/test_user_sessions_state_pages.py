"""State operations as a person does them: the form in a real browser, the run, and the page of its result.

Screenshots go to SCREENSHOTS when it names a folder; those in docs/images were taken so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest

from tests.e2e.browsing import CHROMIUM, keep, logged_in
from tests.e2e.event_files import as_line, shifted, web_events, write_lines
from tests.e2e.installation import Installation
from tests.e2e.live_stream import LiveStream
from tests.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to look at the pages with"),
]

DAG = "state_operations"
# Events of the future beside those of the scenarios before; whoever sends more comes after.
DAYS = 400
ENDED = ("success", "failed")


@pytest.fixture(scope="module")
def stream(platform: Installation, tmp_path_factory: pytest.TempPathFactory) -> LiveStream:
    """The stream, supervised, with something in its state."""
    stream = LiveStream("user_sessions", platform)
    if not stream.is_running():
        stream.trigger("run")
        stream.wait_running(150)
    before = stream.counted()
    lines = [as_line(event) for event in shifted(web_events()[:2000], DAYS, "pages")]
    file = write_lines(tmp_path_factory.mktemp("events") / "events.jsonl", lines)
    assert stream.replay(file).wait(timeout=120) == 0
    wait_until(lambda: stream.counted() >= before + len(lines), 90, stream.describe)
    return stream


@pytest.fixture(scope="module")
def page(platform: Installation) -> Iterator[Page]:
    with logged_in(platform) as page:
        yield page


def filled(stream: LiveStream, page: Page, verb: str, fields: dict[str, str], *, dry_run: bool) -> Locator:
    """Open the form and fill it in as a person does; returns the dialog."""
    page.goto(f"{stream.installation.settings.airflow_url}/dags/{DAG}")
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.get_by_role("dialog")
    for field, value in (("verb", f"{verb}: "), ("stream", stream.name)):
        dialog.locator(f"#element_{field}").click()
        page.keyboard.type(value)
        page.keyboard.press("Enter")
    # Nothing more comes in these tests, so it is waited in vain for a batch.
    dialog.locator("input[name='element_watch_s']").fill("60")
    if dry_run:
        dialog.locator("[id='switch:element_dry_run']").click()
    if fields:
        dialog.get_by_role("button", name=re.compile(f"^{verb}: ")).click()
    for field, value in fields.items():
        dialog.locator(f"input[name='element_{verb}_{field}']").fill(value)
    return dialog


def operate(
    stream: LiveStream, page: Page, verb: str, *, dry_run: bool = False, shot: str = "", **fields: str
) -> str:
    """Trigger an operation by its form, and return the id of its run when that has succeeded."""
    with stream.airflow() as api:
        wait_until(lambda: api.has_dag(DAG), 90, f"DAG {DAG} is parsed", poll_s=1)
        known = set(api.runs(DAG))
        dialog = filled(stream, page, verb, fields, dry_run=dry_run)
        if shot:
            keep(page, shot)
        dialog.get_by_role("button", name="Trigger").last.click()
        run = wait_until(lambda: next(iter(set(api.runs(DAG)) - known), ""), 60, "a run has begun")
        wait_until(
            lambda: api.run_state(DAG, run) in ENDED,
            240,
            lambda: f"{verb} ends; found {api.task_states(DAG, run)}; {stream.describe()}",
            poll_s=1,
        )
        assert api.run_state(DAG, run) == "success", api.task_states(DAG, run)
    return run


def open_result(stream: LiveStream, page: Page, run: str) -> None:
    """Go where the button of the run's task leads."""
    with stream.airflow() as api:
        links = api.task_links(DAG, run, "operate")
    link = links.get("Result page")
    assert link, links
    page.goto(urljoin(stream.installation.settings.airflow_url, link))


def test_a_repartition_by_one_click(stream: LiveStream, page: Page) -> None:
    """Nothing but the form, on a live stream."""
    (driver,) = stream.drivers()
    run = operate(stream, page, "repartition", dry_run=True, shot="state-form", partitions="3")
    open_result(stream, page, run)
    page.get_by_text(re.compile(r"would go from \d to \d partitions")).wait_for()
    page.get_by_text("A dry run: nothing was changed.").wait_for()
    keep(page, "state-dry-run")
    assert stream.drivers() == [driver]

    run = operate(stream, page, "repartition", partitions="3")
    page.goto(f"{stream.installation.settings.airflow_url}/dags/{DAG}/runs/{run}")
    page.get_by_text("outcome").first.wait_for()
    page.wait_for_load_state("networkidle")
    keep(page, "state-run")
    open_result(stream, page, run)
    page.get_by_text("has 3 partitions and had 2").wait_for()
    keep(page, "state-repartition")
    stream.wait_running()
    assert stream.drivers() != [driver]


def test_a_look_at_the_state(stream: LiveStream, page: Page) -> None:
    (driver,) = stream.drivers()
    open_result(stream, page, operate(stream, page, "inspect"))
    page.get_by_text("Young").first.wait_for()
    keep(page, "state-inspect")
    assert stream.drivers() == [driver]
