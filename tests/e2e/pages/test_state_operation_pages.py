"""Every state operation as a person does it: the form in a real browser, the run, the page of its result.

A quarter of an hour, so `make pages` runs it and not `make test`. Screenshots go to SCREENSHOTS when that
names a folder (tests/support/pages/pictures.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateward.control.jobs.verbs import VERBS
from tests.support.control.live_stream import LiveStream
from tests.support.full import only_full
from tests.support.pages.browser import CHROMIUM, keep
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to look at the pages with"),
    only_full,  # A quarter of an hour.
]

ENDED = ("success", "failed")
VISITOR = "visitor-1"


def filled(page: Page, url: str, stream: str, verb: str, fields: dict[str, str], *, dry_run: bool) -> Locator:
    """Open the form and fill it in as a person does; returns the dialog."""
    page.goto(url)
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.get_by_role("dialog")
    for field, value in (("verb", f"{verb}: "), ("stream", stream)):
        dialog.locator(f"#element_{field}").click()
        page.keyboard.type(value)
        page.keyboard.press("Enter")
    if dry_run:
        dialog.locator("[id='switch:element_dry_run']").click()
    if fields:
        dialog.get_by_role("button", name=re.compile(f"^{verb}: ")).click()
    for field, value in fields.items():
        dialog.locator(f"input[name='element_{verb}_{field}']").fill(value)
    return dialog


def operate(
    stream: LiveStream, page: Page, verb: str, *, dry_run: bool = False, state: str = "success", **fields: str
) -> str:
    """Trigger an operation by its form, and end on the page of its result; returns the page's text."""
    dag = VERBS[verb].dag_id
    shot = f"state-{verb}{'-dry-run' if dry_run else ''}"
    url = stream.installation.settings.airflow_url
    with stream.airflow() as api:
        wait_until(lambda: api.has_dag(dag), PATIENCE_S, f"DAG {dag} is parsed", poll_s=1)
        known = set(api.runs(dag))
        dialog = filled(page, f"{url}/dags/{dag}", stream.name, verb, fields, dry_run=dry_run)
        keep(page, f"{shot}-form")
        dialog.get_by_role("button", name="Trigger").last.click()
        run = wait_until(lambda: next(iter(set(api.runs(dag)) - known), ""), PATIENCE_S, "a run has begun")
        page.goto("about:blank")  # what moves on a page takes a third of a core without a graphics card
        wait_until(
            lambda: api.run_state(dag, run) in ENDED,
            600,
            lambda: f"{verb} ends; found {api.task_states(dag, run)}; {stream.describe()}",
            poll_s=1,
        )
        tasks = api.task_states(dag, run)
        assert api.run_state(dag, run) == state, f"{verb}: {tasks}"
        link = api.task_links(dag, run, "operate").get("Result page")
    assert link, f"{verb}: the task has no page; {tasks}"
    page.goto(urljoin(url, link))
    page.wait_for_load_state("networkidle")
    keep(page, f"{shot}-result")
    return page.locator("body").inner_text()


def test_back_to_a_savepoint(stream: LiveStream, page: Page) -> None:
    """A savepoint is made, looked at, compared with, and gone back to, while records come."""
    assert "nothing was changed" in operate(stream, page, "savepoint", dry_run=True)
    (driver,) = stream.drivers()
    made = operate(stream, page, "savepoint", reason="before a test")
    found = re.search(r"Savepoint (\d{8}T\d{6}Z)", made)
    assert found, made
    savepoint, saved = found[1], stream.counted()
    assert stream.drivers() != [driver]
    assert "before a test" in operate(stream, page, "savepoints")
    assert savepoint in operate(stream, page, "verify", savepoint=savepoint)
    assert "nothing was changed" in operate(stream, page, "prune", dry_run=True)
    # More has come since: the page says what differs, and the run is red.
    wait_until(lambda: stream.counted() > saved, PATIENCE_S, stream.describe)
    assert "differ" in operate(stream, page, "compare", state="failed", left=savepoint)
    assert "nothing was changed" in operate(stream, page, "restore", dry_run=True, savepoint=savepoint)
    before = stream.counted()
    assert savepoint in operate(stream, page, "restore", savepoint=savepoint)
    wait_until(lambda: stream.counted() >= before, PATIENCE_S, stream.describe)


def test_a_repartition_by_one_click(stream: LiveStream, page: Page) -> None:
    (driver,) = stream.drivers()
    dry = operate(stream, page, "repartition", dry_run=True, partitions="3")
    assert re.search(r"would go from 2 to 3 partitions", dry), dry
    keep(page, "state-dry-run")
    assert stream.drivers() == [driver]
    done = operate(stream, page, "repartition", partitions="3")
    assert "has 3 partitions and had 2" in done, done
    assert stream.drivers() != [driver]
    dag = VERBS["repartition"].dag_id
    with stream.airflow() as api:
        *_, run = api.runs(dag)
    page.goto(f"{stream.installation.settings.airflow_url}/dags/{dag}/runs/{quote(run, safe='')}")
    page.get_by_role("link", name="outcome", exact=True).first.wait_for()
    keep(page, "state-run")


def test_looks_at_the_state(stream: LiveStream, page: Page) -> None:
    """They leave the stream alone."""
    (driver,) = stream.drivers()
    keys = stream.rows("sessions", ["user_id"])
    assert "Young" in operate(stream, page, "inspect")
    assert "partitions" in operate(stream, page, "advise")
    assert "may run on this state" in operate(stream, page, "verdict")
    key = keys[0]["user_id"] if keys else VISITOR
    told = operate(stream, page, "explain", key=key)
    assert key not in told and f"{key[:2]}***({len(key)})" in told
    assert stream.drivers() == [driver]


def test_a_migration_to_other_buckets(stream: LiveStream, page: Page) -> None:
    yaml = stream.installation.settings.streams / "user_sessions.yaml"
    yaml.write_text(yaml.read_text() + "state: {buckets: 48}\n")
    assert "nothing was changed" in operate(stream, page, "migrate", dry_run=True)
    operate(stream, page, "migrate")
    stream.wait_running()


def test_a_new_stream_begins_with_a_table(stream: LiveStream, page: Page) -> None:
    """Of devices that are known already."""
    devices = LiveStream("device_lifecycle", stream.installation)
    now = 1_700_000_000_000
    table = f"file://{stream.installation.settings.home}/devices"
    rows = [
        {
            "device_id": f"pump-{number}",
            "mode": "running",
            "said": "running",
            "first_ms": now,
            "last_ms": now,
            "last_event_id": f"e{number}",
            "changed_ms": now,
        }
        for number in range(200)
    ]
    write_deltalake(table, pa.Table.from_pylist(rows))
    dry = operate(devices, page, "seed", dry_run=True, table=table, key="device_id")
    assert "200 keys" in dry, dry
    done = operate(devices, page, "seed", table=table, key="device_id")
    assert "begins with 200 keys" in done, done
