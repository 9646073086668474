"""The operator's page: what it says of streams, and that nothing in a document is taken for HTML."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from stateward.contract.storage import read_json, write_json
from stateward.contract.stream_control import Application, Control, Failure
from stateward.contract.stream_control import Launch as Started
from stateward.contract.stream_status import DriverState, Status
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile.decide import (
    Action,
    Done,
    Drain,
    GiveUp,
    Healthy,
    Held,
    Kill,
    Launch,
    Observed,
    Wait,
)
from stateward.pages.streams.condition import NEVER_STARTED, Condition, condition
from stateward.pages.streams.documents import read_streams
from stateward.pages.streams.page import content_policy, render
from stateward.pages.streams.view import OPERATOR_COLUMNS, StreamView, in_order, stream_view
from stateward.project.layout import Layout
from tests.support.pages.html_rules import require_allowed, require_whole, text
from tests.support.pages.sample_streams import MINUTE, Written, installation, write
from tests.support.pages.sample_streams import Sample as Line

NOW = datetime(2026, 2, 3, 14, 30, tzinfo=UTC)
NASTY = "<script>alert(1)</script>&\"'"


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return installation(tmp_path, NOW)


def page(written: Written, hours: int = 6) -> str:
    return render(read_streams(written.settings), NOW, hours)


def views(written: Written) -> dict[str, StreamView]:
    read = read_streams(written.settings)
    return {one.stream: stream_view(one, NOW - timedelta(hours=6), NOW, 30) for one in read}


@pytest.mark.parametrize("what", ["healthy", "lagging", "failed"])
def test_the_page_is_whole_and_needs_nothing_beside_itself(written: Written, what: str) -> None:
    write(written, what)
    html = page(written)

    require_whole(html)


def test_the_log_of_a_driver_in_a_container_of_yarn_is_a_page_of_yarn(written: Written) -> None:
    write(written, "healthy")
    read = next(one for one in read_streams(written.settings) if one.stream == "user_sessions")
    assert read.seen is not None and read.seen.control is not None and read.seen.control.launch is not None
    application = Application("yarn", "http://rm:8088", "application_1_0001")
    launch = structs.replace(read.seen.control.launch, application=application)
    seen = replace(read.seen, control=structs.replace(read.seen.control, launch=launch))
    found = stream_view(replace(read, seen=seen), NOW - timedelta(hours=6), NOW, 30).links
    assert "http://rm:8088/cluster/app/application_1_0001" in [link.href for link in found]


def test_a_healthy_day(written: Written) -> None:
    write(written, "healthy")
    found = views(written)

    assert {name: (view.condition.state, view.level) for name, view in found.items()} == {
        "user_sessions": ("running", "good"),
        "device_lifecycle": ("running", "good"),
        "event_windows": ("held", "calm"),
    }
    sessions = found["user_sessions"]
    assert sessions.desired == "running"
    assert "by dag run manual__" in sessions.wish
    assert [chart.name for chart in sessions.charts] == [
        "Lag",
        "Throughput",
        "Watermark delay",
        "State size",
        "Live keys",
    ]
    assert all(chart.drawing and not chart.drawing.gaps and not chart.is_old for chart in sessions.charts)
    assert [(link.text, link.href) for link in sessions.links] == [
        ("DAG", "../../dags/stream_user_sessions"),
        ("State report", "../operations/user_sessions/20260203T143000Z-inspect/index.html"),
        (
            "Data Docs",
            "../data-docs/validations/sessions/user_sessions_v1-7_manual__1/20260203T143000Z/sessions.html",
        ),
        ("Quality", "../quality/index.html"),
    ]
    [restart] = found["device_lifecycle"].incidents
    assert (restart.last.kind, restart.last.cause, restart.times) == ("restarted", "asked to restart", 1)
    held = found["event_windows"]
    assert "repartition" in held.condition.says and held.hold == "", "it is said once"


def test_each_operator_has_its_measures(written: Written) -> None:
    written.stream("user_sessions", [Line(NOW, "r1")])
    [row] = views(written)["user_sessions"].operators
    name = "transformWithStateInPySparkExec"
    assert row == (name, "100,000", "128", "64", "42.0 MB", "21.0 MB", "99.5 %", "86 ms")
    assert len(row) == len(OPERATOR_COLUMNS)
    assert "Operators with state" in text(page(written))

    uri = Layout.of(written.settings).status_uri("user_sessions")
    status = read_json(uri) or {}
    write_json(uri, {**status, "operators": [{"name": "dedupe"}]})
    assert views(written)["user_sessions"].operators == (("dedupe", *"–––––––"),)
    del status["operators"]  # a driver of the release before
    write_json(uri, status)
    assert views(written)["user_sessions"].operators == ()
    assert "Operators with state" not in text(page(written))


def test_the_size_of_the_state_is_among_the_facts(written: Written) -> None:
    written.stream("user_sessions", [Line(NOW, "r1")])
    uri = Layout.of(written.settings).status_uri("user_sessions")
    status = read_json(uri) or {}
    sizes = {"key_growth": 2.0, "state_keys": 2000, "live_bytes": 12_000_000, "largest_key_bytes": 1_500_000}
    write_json(uri, {**status, **sizes, "partition_bytes": {"0": 10_000_000, "1": 2_000_000}})
    view = views(written)["user_sessions"]
    assert {
        ("keys", "2,000"),
        ("bytes per key", "6.0 kB"),
        ("largest key", "1.5 MB"),
        ("largest partition", "5.0 × the median"),
        ("key growth", "2.0 ×"),
    } <= set(view.facts)
    found = {finding.measure.partition(" (")[0] for finding in view.findings}
    assert found == {
        "there are 2.0 times as many keys as the input's growth explains",
        "the largest key takes 285.6 times the others' mean",
        "the largest state partition has 5.0 times the median",
    }
    write_json(uri, {**status, "state_keys": None})
    assert {"keys", "bytes per key", "largest key"}.isdisjoint(dict(views(written)["user_sessions"].facts))


def test_a_stream_that_lags_comes_first_with_its_warning(written: Written) -> None:
    write(written, "lagging")
    html = page(written)
    view = views(written)["fraud_watch"]

    assert html.index('<article id="fraud_watch"') < html.index('<article id="user_sessions"')
    assert (view.condition.state, view.level) == ("running", "warn")
    assert "records behind (limit 250,000)" in text(html)
    lag, *_ = view.charts
    assert lag.limit == "250,000"
    assert lag.drawing is not None and lag.drawing.limit_y is not None
    assert "limit 250,000" in lag.says
    [waited] = view.incidents
    assert waited.last.kind == "waited" and "10.2.0.7:9092 does not answer" in waited.last.cause
    assert waited.last.over_at is not None and waited.last.over_at - waited.last.at == 9 * MINUTE


def test_streams_that_nobody_has_started_come_after_those_that_run(written: Written) -> None:
    write(written, "healthy")
    found = views(written)
    new = replace(found["user_sessions"], stream="a", condition=Condition(NEVER_STARTED, "calm", ""))
    assert [one.stream for one in in_order([new, *found.values()])] == [*sorted(found), "a"]


def test_nothing_in_a_document_is_taken_for_html(written: Written) -> None:
    written.stream(
        "user_sessions",
        [
            Line(NOW - 9 * MINUTE, "r1", "running", launched=NASTY),
            Line(NOW - 5 * MINUTE, "r2", "waiting", launched=f"crash: {NASTY}", message=NASTY),
            Line(NOW - 2 * MINUTE, "r3", "running", failure=Failure("reported", f"again: {NASTY}")),
            Line(NOW, NASTY, "failed", message=NASTY),
        ],
        reason=NASTY,
    )
    layout = Layout.of(written.settings)
    control = read_json(layout.control_uri("user_sessions")) or {}
    write_json(layout.control_uri("user_sessions"), {**control, "requested_by": NASTY})
    written.reports("user_sessions", "sessions")
    (written.settings.streams / "broken.yaml").write_text("stream: '<script>alert(1)</script>'\n")
    html = page(written)

    assert "<script>alert" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;") >= 5
    assert html.count("<script>") == 1, "the page's own"


def test_a_browser_takes_the_pages_own_style_and_script(written: Written) -> None:
    html = page(written)

    require_allowed(html, content_policy())


def test_one_bad_file_does_not_hide_the_others(written: Written) -> None:
    write(written, "lagging")
    layout = Layout.of(written.settings)
    Path(layout.control_uri("user_sessions").removeprefix("file://")).write_text("{half a docum")
    status = read_json(layout.status_uri("fraud_watch")) or {}
    write_json(layout.status_uri("fraud_watch"), {**status, "lag_records": "many"})
    (written.settings.streams / "broken.yaml").write_text("stream: broken\n")
    written.stream("user_activity", [Line(NOW, "r1")])
    said = text(page(written))

    assert "cannot read its desired state" in said
    assert "its documents do not hold what docs/architecture.md says" in said
    assert "broken.yaml" in said
    assert "running, batch 0" in said


def test_without_documents_it_says_what_to_do(written: Written) -> None:
    assert "There are no streams" in text(page(written))
    written.stream("user_sessions", [Line(NOW, "r1")])
    layout = Layout.of(written.settings)
    for uri in (
        layout.control_uri("user_sessions"),
        layout.status_uri("user_sessions"),
        layout.history_uri("user_sessions"),
    ):
        Path(uri.removeprefix("file://")).unlink()
    said = text(page(written))

    assert "never started" in said and "trigger its DAG with the action run" in said
    assert said.count("no samples") == 5


def test_a_stream_that_nobody_supervises(written: Written) -> None:
    written.stream("user_sessions", [Line(NOW, "r1")], supervised=False)
    written.stream("user_activity", [Line(NOW, "r1")])
    later = NOW + timedelta(seconds=40)
    found = {
        one.stream: stream_view(one, later - timedelta(hours=1), later, 30)
        for one in read_streams(written.settings)
    }

    [finding] = found["user_sessions"].findings
    assert (finding.level, finding.measure) == ("warn", "no DAG run supervises it")
    assert finding.cause == "Trigger stream_user_sessions with the action run."
    [finding] = found["user_activity"].findings
    assert (finding.value, finding.limit) == ("40 s", "30 s")


def test_a_driver_that_commits_nothing_while_records_wait(written: Written) -> None:
    stuck = [replace(line, lag=500) for line in (Line(NOW - n * MINUTE, "r1") for n in range(30, -1, -1))]
    written.stream("user_sessions", stuck)
    layout = Layout.of(written.settings)
    file = Path(layout.history_uri("user_sessions").removeprefix("file://"))
    batch = (read_json(layout.status_uri("user_sessions")) or {})["batch_id"]
    moving = file.read_text()
    assert views(written)["user_sessions"].condition.state == "running"

    file.write_text(re.sub(r'"batch_id": \d+', f'"batch_id": {batch}', moving))
    found = views(written)["user_sessions"].condition
    assert (found.state, found.level) == ("hanging", "bad")
    assert "no batch was committed for 1800 s with records waiting" in found.says

    file.write_text(re.sub(r'"lag_records": 500', '"lag_records": 0', file.read_text()))
    assert views(written)["user_sessions"].condition.state == "running", "a quiet topic has no new batches"


CONTROL = Control("s", "running", "r1", NOW, "me", "asked to run")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Healthy("runs"), ("running", "good")),
        (GiveUp("five times"), ("failed", "bad")),
        (Kill("it hangs"), ("hanging", "bad")),
        (Launch("crash: gone", Failure("gone", "gone")), ("failed", "bad")),
        (Launch("asked to run"), ("starting", "calm")),
        (Wait("next attempt in 5 s", until=NOW), ("failed", "bad")),
        (Held("a repartition"), ("held", "calm")),
        (Done("asked to"), ("stopped", "calm")),
        (Drain("asked to"), ("draining", "calm")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Action) else value[0],
)
def test_every_decision_has_a_word(action: Action, expected: tuple[str, str]) -> None:
    found = condition(Observed(CONTROL, None, Presence.ALIVE), action)

    assert (found.state, found.level, found.says) == (*expected, action.reason)


@pytest.mark.parametrize(
    ("state", "action", "word"),
    [
        ("waiting", Healthy("waits by itself"), "waiting"),
        ("draining", Wait("about to leave"), "draining"),
        ("starting", Wait("launched 3 s ago"), "starting"),
    ],
)
def test_a_driver_that_comes_goes_or_waits(state: DriverState, action: Action, word: str) -> None:
    control = structs.replace(CONTROL, launch=Started("r1", NOW, "h", "log"))
    status = Status("s", "r1", state, NOW, NOW)

    assert condition(Observed(control, status, Presence.ALIVE), action).state == word
