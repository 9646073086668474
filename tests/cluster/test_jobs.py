"""A stream of each kind at once, each with all of its jobs, on a standalone cluster with HDFS or S3.

Per-key state, windows and a join run beside the landing of their raw events. Each stream's validation,
reconciliation and inspection of its state run at the same time. The pages are looked at in a real browser,
if this machine has one.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from deltalake import DeltaTable

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES
from stateward.contract.names import RECONCILIATIONS
from stateward.contract.storage import list_names
from stateward.platform.parts.ports import free_ports
from stateward.rendering import page_address
from tests.cluster.conftest import Cluster, Installed
from tests.e2e.test_replay import read_all
from tests.support.airflow_server import api_server
from tests.support.cluster.airflow_runs import AirflowRuns
from tests.support.cluster.installation import ClusterInstallation, ClusterStream
from tests.support.full import only_full
from tests.support.pages.browser import CHROMIUM, opened_page
from tests.support.streams.oracle import STREAMS
from tests.support.streams.traced import Traced

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.cluster, only_full]

KINDS = ("user_sessions", "event_windows", "payment_auth_join")
# The first half of the traffic ends half an hour after its start. A row of the windows or of the join is due
# at most five minutes after its time, and events may be two minutes late.
SPAN = json.dumps({"from": "2025-01-06T00:00:00Z", "to": "2025-01-06T00:20:00Z"})
# Each job is a Spark application, and six others run beside it.
JOB_S = 900.0


@pytest.mark.parametrize("storage", ["hdfs", "s3"])
def test_a_stream_of_each_kind_is_exact_with_all_of_its_jobs_at_once(
    cluster: Cluster, installed: Installed, storage: str
) -> None:
    installation = installed("kinds", storage)
    airflow = installation.airflow
    migration = airflow.migrate()
    courses = {name: _course(cluster, installation.add(name), name) for name in KINDS}
    topics = [topic for _, course in courses.values() for topic in course.topics]
    raw = installation.add("raw_events", source={"topics": topics, "tick": {"mode": "off"}})
    streams = [stream for stream, _ in courses.values()]
    airflow.wait(migration)
    for stream in (*streams, raw):
        stream.run()
    halves = {name: course.parts(2) for name, (_, course) in courses.items()}
    for name, (_, course) in courses.items():
        course.send(halves[name][0])
    for stream, course in courses.values():
        stream.delivered(course.sent)
    # A reconciliation reads what has landed.
    raw.delivered(sum(course.sent for _, course in courses.values()))

    airflow.store_dags()
    for name, (_, course) in courses.items():
        # One stream after the other, because three applications are added to those of the streams.
        jobs = [(f"quality_{name}", "{}"), (f"reconcile_{name}", SPAN)]
        jobs.append(("state_inspection", json.dumps({"verb": "inspect", "stream": name})))
        runs = [airflow.start(*job) for job in jobs]
        course.send(halves[name][1])
        for run in runs:
            _require_success(airflow, run)
    _require_success(airflow, airflow.start("quality_raw_events"))
    _require_reconciled(installation, streams)
    for stream, course in courses.values():
        course.finish(stream)
    assert {name: wrong for name, (_, course) in courses.items() if (wrong := course.wrong())} == {}
    wanted = {topic: _records(cluster, topic) for topic in topics}
    raw.delivered(sum(found.total() for found in wanted.values()))
    assert _landed(raw) == wanted
    _look_at_the_pages(installation, streams)
    for stream in (*streams, raw):
        stream.stop()


def _course(cluster: Cluster, stream: ClusterStream, name: str) -> tuple[ClusterStream, Traced]:
    course = Traced(stream, Plan(PROFILES["daily"], 5, rate=1, minutes=60, topics=(STREAMS[name],)))
    cluster.broker.create_topic(stream.topic, stream.partitions)
    return stream, course


def _require_success(airflow: AirflowRuns, run: subprocess.Popen[bytes]) -> None:
    """Wait for a run, all tasks of which have to end well; a task that was skipped has not."""
    states = airflow.wait(run, JOB_S)
    assert set(states.values()) == {"success"}, f"{states} {airflow.said(run)[-3000:]}"


def _require_reconciled(installation: ClusterInstallation, streams: Sequence[ClusterStream]) -> None:
    """Each table was compared, and its rows are equal in all of the range."""
    found = DeltaTable(installation.layout.table_uri(RECONCILIATIONS)).to_pyarrow_table().to_pylist()
    known = {(row["stream"], row["table"]): row for row in found}
    assert sorted(known) == sorted((one.name, table) for one in streams for table in one.stream.tables)
    for row in known.values():
        assert row["equal"] and row["rows_compared"] > 0 and row["judged_to"] == row["range_to"], row


def _records(cluster: Cluster, topic: str) -> Counter[tuple[bytes | None, bytes | None]]:
    return Counter(one for records in read_all(cluster.broker, topic).values() for one in records)


def _landed(raw: ClusterStream) -> dict[str, Counter[tuple[bytes | None, bytes | None]]]:
    found: dict[str, Counter[tuple[bytes | None, bytes | None]]] = {}
    for row in raw.rows("raw_events"):
        found.setdefault(row["topic"], Counter())[row["key"], row["value"] or b""] += 1
    return found


def _look_at_the_pages(installation: ClusterInstallation, streams: Sequence[ClusterStream]) -> None:
    if CHROMIUM is None:
        return
    with _browser(installation) as (page, url):
        page.goto(f"{url}{page_address.STREAMS_PAGE}")
        for name in (*KINDS, "raw_events"):
            page.locator(f"article#{name} .badge.good").first.wait_for()
        page.goto(f"{url}{page_address.QUALITY_PAGE}")
        for stream in streams:
            for table in stream.stream.tables:
                row = page.locator(f"#{stream.name}-{table}")
                row.locator(".badge.good", has_text="all hold").wait_for()
                row.locator(".badge.good", has_text="equal").wait_for()
        page.locator("#user_sessions-sessions").get_by_role("link", name="sessions").first.click()
        page.get_by_role("heading", name="Reconciliations").wait_for()
        page.goto(f"{url}{page_address.DATA_DOCS_PAGE}")
        page.locator("a[href*='validations/']").first.click()
        page.wait_for_url("**/validations/**")
        page.get_by_text("Expectation Suite").first.wait_for()
        for name in KINDS:
            [operation] = list_names(f"{installation.layout.operations_uri}/{name}")
            page.goto(f"{url}{page_address.operation(name, operation)}")
            page.get_by_role("heading", name=f"State of {name}").wait_for()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/v2/version", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def _browser(installation: ClusterInstallation) -> Iterator[tuple[Page, str]]:
    """A browser at an API server that takes every visitor for an administrator."""
    [port] = free_ports(1)
    url = f"http://localhost:{port}"
    environment = {
        **installation.airflow.environment,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__API__BASE_URL": url,
        "STATEWARD_AIRFLOW_URL": url,
    }
    with (
        api_server(installation.folder, environment, port, lambda: _answers(url)),
        opened_page() as page,
    ):
        page.goto(url)
        page.get_by_role("link", name="Dags").first.wait_for()
        yield page, url
