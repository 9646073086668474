"""The care of a state as a person sees it: a run by its button, the question, the answer, the report.

With a day of a second nothing that was refused or has failed stands in the way of the next test. With one
partition as the most, a small state has something to propose. Leave the checkout alone meanwhile: an edit of
the library is another release, and then nothing is asked. `make pages` runs it; screenshots go to SCREENSHOTS
when that names a folder (tests/support/pages/pictures.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest

from stateward.contract.state_care import Change
from stateward.control.care.record import read_record
from stateward.control.jobs.verbs import CHANGING_DAG
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import current
from tests.support.control.live_stream import LiveStream
from tests.support.full import only_full
from tests.support.pages.browser import CHROMIUM, keep
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to look at the pages with"),
    only_full,  # A quarter of an hour.
]

ENDED = ("success", "failed")
LONG_S = 900
CHANGE = "1 partition in place of 2"


@contextmanager
def declared(stream: LiveStream, **sections: str) -> Iterator[None]:
    """Add sections to the stream's YAML for a while."""
    yaml = stream.installation.settings.streams / f"{stream.name}.yaml"
    before = yaml.read_text()
    yaml.write_text(before + "".join(f"{name}: {section}\n" for name, section in sections.items()))
    try:
        yield
    finally:
        yaml.write_text(before)


def care(policy: str) -> str:
    return f"{{policy: {policy}, day: 1s, limits: {{max_partitions: 1}}}}"


def begun(stream: LiveStream, page: Page) -> str:
    """Trigger the DAG by its button; returns the run."""
    dag, url = f"state_{stream.name}", stream.installation.settings.airflow_url
    with stream.airflow() as api:
        wait_until(lambda: api.has_dag(dag), PATIENCE_S, f"DAG {dag} is parsed", poll_s=1)
        known = set(api.runs(dag))
        page.goto(f"{url}/dags/{dag}")
        page.get_by_role("button", name="Trigger").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Trigger").last.click()
        run = wait_until(lambda: next(iter(set(api.runs(dag)) - known), ""), PATIENCE_S, "a run has begun")
        page.goto("about:blank")  # what moves on a page takes a third of a core without a graphics card
        return run


def answered(stream: LiveStream, page: Page, run: str, answer: str, shot: str) -> None:
    """Answer the question of a run as a person does: from the list of required actions."""
    dag, url = f"state_{stream.name}", stream.installation.settings.airflow_url
    with stream.airflow() as api:

        def asks() -> bool:
            ended = api.run_state(dag, run) in ENDED
            assert not ended, f"it asks; found its end: {reported(stream, page, run, 'not-asked')}"
            return api.task_states(dag, run)["approve"] == "awaiting_input"

        wait_until(
            asks,
            LONG_S,
            lambda: f"{dag} asks; found {api.task_states(dag, run)}; {stream.describe()}",
            poll_s=1,
        )
    page.goto(f"{url}/required_actions?response_received=false")
    asked = page.get_by_text(f"{stream.name}: {CHANGE}?").first
    asked.wait_for()
    keep(page, "state-care-list")
    asked.click()
    page.get_by_text("The stream is stopped for about").first.wait_for()
    dry_run = page.get_by_role("link", name="Page of the dry run").first
    href = dry_run.get_attribute("href")
    assert href
    keep(page, shot)
    question = page.url
    page.goto(urljoin(url, href))
    page.get_by_text("would go from 2 to 1 partitions").first.wait_for()
    keep(page, "state-care-dry-run")
    page.goto(question)
    page.get_by_role("button", name=answer, exact=True).first.click()


def reported(stream: LiveStream, page: Page, run: str, shot: str) -> tuple[dict[str, str | None], str]:
    """Wait for the end of a run, and open its report; returns the tasks' states and the report's text."""
    dag, url = f"state_{stream.name}", stream.installation.settings.airflow_url
    with stream.airflow() as api:
        wait_until(
            lambda: api.run_state(dag, run) in ENDED,
            LONG_S,
            lambda: f"{dag} ends; found {api.task_states(dag, run)}; {stream.describe()}",
            poll_s=1,
        )
        tasks, link = api.task_states(dag, run), api.task_links(dag, run, "report").get("Result page")
    assert link, tasks
    page.goto(urljoin(url, link))
    page.wait_for_load_state("networkidle")
    keep(page, f"state-care-{shot}")
    return tasks, page.locator("body").inner_text()


def states(**by_state: str) -> dict[str, str]:
    return {task: state for state, tasks in by_state.items() for task in tasks.split()}


def partitions(stream: LiveStream) -> int | None:
    """The number of partitions in the newest generation of the stream's checkpoint."""
    return Checkpoint(current(stream.layout.checkpoint_uri(stream.name)).uri).state_partitions()


def last_change(stream: LiveStream) -> Change:
    return read_record(stream.layout, stream.name).changes[-1]


def unchanged(stream: LiveStream) -> Callable[[], None]:
    """A check that no operation has changed or stopped the stream since."""
    drivers = stream.drivers()

    def check() -> None:
        assert stream.drivers() == drivers

    return check


def test_by_default_a_change_is_only_proposed(stream: LiveStream, page: Page) -> None:
    check = unchanged(stream)
    with declared(stream, state_care=care("propose"), savepoints="null"):
        tasks, text = reported(stream, page, begun(stream, page), "proposal")
    assert tasks == states(
        success="deployed advise dry_run report", skipped="savepoint verify prune approve act"
    )
    assert f"{CHANGE}: proposed only" in text
    assert "The stream is stopped for about" in text
    check()


def test_what_a_person_rejects_changes_nothing(stream: LiveStream, page: Page) -> None:
    check = unchanged(stream)
    with declared(stream, state_care=care("approve"), savepoints="null"):
        run = begun(stream, page)
        answered(stream, page, run, "Reject", "state-care-question-reject")
        tasks, text = reported(stream, page, run, "rejected")
    assert f"{CHANGE}: not done" in text
    assert "Rejected by admin" in text
    assert (tasks["approve"], tasks["act"], tasks["report"]) == ("success", "skipped", "success")
    change = last_change(stream)
    assert (change.outcome, change.by, change.after) == ("refused", "admin", 1)
    check()


def test_what_fails_is_taken_back(stream: LiveStream, page: Page) -> None:
    """While the state is changed, a YAML is deployed with which the driver cannot start."""
    (driver,) = stream.drivers()
    with declared(stream, state_care=care("approve"), savepoints="null"), stream.airflow() as api:
        known = set(api.runs(CHANGING_DAG))
        run = begun(stream, page)
        answered(stream, page, run, "Approve", "state-care-question-approve")
        triggered = wait_until(
            lambda: next(iter(set(api.runs(CHANGING_DAG)) - known), ""),
            PATIENCE_S,
            lambda: f"the change begins; found {api.task_states(f'state_{stream.name}', run)}",
        )
        wait_until(
            lambda: api.task_states(CHANGING_DAG, triggered).get("drain") == "success",
            PATIENCE_S,
            lambda: f"it drains; found {api.task_states(CHANGING_DAG, triggered)}",
        )
        with declared(stream, state="{cache: /dev/null/cache}"):
            tasks, text = reported(stream, page, run, "failed")
        steps = api.task_states(CHANGING_DAG, triggered)
    assert steps | states(success="operate go_back.restore go_back.watch", failed="watch outcome") == steps
    assert tasks | states(failed="act report") == tasks
    assert f"Stream {stream.name} went back to the savepoint made before, and runs." in text
    assert last_change(stream).outcome == "failed"
    stream.wait_running()
    assert stream.drivers() != [driver]
    assert partitions(stream) == 2


def test_what_a_person_approves_is_made_and_proved(stream: LiveStream, page: Page) -> None:
    (driver,) = stream.drivers()
    with declared(stream, state_care=care("approve")):
        run = begun(stream, page)
        answered(stream, page, run, "Approve", "state-care-question")
        tasks, text = reported(stream, page, run, "approved")
    wanted = "deployed advise dry_run savepoint verify prune approve act report"
    assert tasks == states(success=wanted)
    assert f"{CHANGE}: done, the policy is approve" in text
    assert "has 1 partitions and had 2" in text
    change = last_change(stream)
    assert (change.outcome, change.by, change.after) == ("done", "admin", 1)
    assert stream.drivers() != [driver]
    assert partitions(stream) == 1
    # The proof: the page of the repartition, by the report's link.
    page.get_by_role("link", name="repartition").last.click()
    page.get_by_text("Every key, value and timer is what it was").first.wait_for()
    keep(page, "state-care-proof")
