"""Traffic without a broker: the manifest, the expected rows, and whom late events wait for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from proof.traffic.counters import Tally
from proof.traffic.generate import DEFAULT_START, Plan, Traffic
from proof.traffic.play import Playing, TooRecentError, play
from proof.traffic.profiles import PROFILES
from proof.traffic.readers import (
    NoReaderError,
    TooOldError,
    WatermarkError,
    behind,
    problem_of,
    readers_of,
    require_not_passed,
    running_readers,
    wait_until_passed,
)
from proof.traffic.records import Slice
from proof.traffic.truth import TruthProcess, TruthProcessError
from proof.truth.write import write_expected
from stateward.platform.report import StreamReport
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, load_spec
from tests.support.streams.oracle import truth_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LAST = datetime(2025, 1, 6, 1, tzinfo=UTC)
PLAN = Plan(PROFILES["quiet"], rate=10, minutes=1, topics=("payments",))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", data=f"file://{tmp_path}/data")


def test_what_is_written_beside_it_is_the_truth_about_it(settings: Settings, tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = play(Playing(PLAN, settings, send=False, late=True, out=out), NOW)
    assert json.loads((out / "manifest.json").read_text()) == manifest
    topic, counts = manifest["topics"]["payments"], manifest["streams"]["fraud_watch"]
    assert topic["event"] + topic["duplicate"] + topic["dead"] == PLAN.total == 600
    assert {name: counts[name] for name in ("accepted", "dead", "late", "duplicates", "tick_records")} == {
        "accepted": topic["event"],
        "dead": topic["dead"],
        "late": topic["late"],
        "duplicates": topic["duplicate"],
        "tick_records": 3,
    }
    # The same, found out in this process.
    truth = truth_of("fraud_watch")
    traffic = Traffic(PLAN)
    for piece in (*traffic.slices(), *traffic.late()):
        for record in piece.records:
            truth.see(record)
    write_expected(tmp_path / "here", truth.finish())
    for file in sorted((tmp_path / "here").iterdir()):
        assert (out / "expected" / "fraud_watch" / file.name).read_text() == file.read_text()
    lines = (out / "expected" / "fraud_watch" / "fraud_alerts.jsonl").read_text().splitlines()
    assert len(lines) == counts["rows"]["fraud_alerts"] > 0
    assert json.loads(lines[0])["raised_at"].startswith("2025-01-06T00:")


def test_the_fingerprint_tells_one_byte() -> None:
    def print_of(pieces: Iterator[Slice]) -> dict[str, Any]:
        tally = Tally()
        for piece in pieces:
            tally.see(piece)
        return tally.by_topic()["payments"]

    def changed() -> Iterator[Slice]:
        for piece in Traffic(PLAN).slices():
            first = piece.records[0]
            yield Slice(piece.topic, [first._replace(key=first.key + b"x"), *piece.records[1:]])

    assert print_of(Traffic(PLAN).slices()) == print_of(Traffic(PLAN).slices())
    assert print_of(Traffic(PLAN).slices())["sha256"] != print_of(changed())["sha256"]


def test_a_start_so_late_that_something_would_be_in_the_future_is_refused(settings: Settings) -> None:
    recent = Plan(PROFILES["quiet"], rate=1, minutes=1, start=NOW - timedelta(days=1), topics=("payments",))
    with pytest.raises(TooRecentError, match=r"--start: expected 2025-12-30.*found 2025-12-31.*--no-tick"):
        play(Playing(recent, settings, send=False), NOW)
    assert play(Playing(recent, settings, send=False, tick=False), NOW)["topics"]["payments"]["tick"] is None
    future = Plan(PROFILES["quiet"], rate=1, minutes=1, start=NOW, topics=("payments",))
    with pytest.raises(TooRecentError, match="or earlier"):
        play(Playing(future, settings, send=False, tick=False), NOW)
    month_before = NOW - timedelta(days=31)
    assert month_before > DEFAULT_START


def test_a_record_that_is_not_what_it_was_meant_to_be_is_an_error(tmp_path: Path) -> None:
    from stateward.control.launchers.launch import resolved_configuration

    configuration = resolved_configuration(load_spec("fraud_watch"), Settings(), "test")
    first = next(Traffic(PLAN).slices())
    broken = Slice("payments", [first.records[0]._replace(value=b"{}")])
    with TruthProcess([configuration], tmp_path, 1) as truth:
        truth.see(broken)
        with pytest.raises(TruthProcessError, match=r"fraud_watch: expected a valid record.*missing_field"):
            truth.finish()


def report(stream: str, state: str | None, watermark: str | None) -> StreamReport:
    return StreamReport(
        stream=stream,
        desired="running",
        held_by=None,
        state=state,
        message="",
        pid=None,
        epoch=None,
        generation=None,
        checkpoint=None,
        batch_id=None,
        caught_up=None,
        lag_records=None,
        watermark=watermark,
        last_batch_age_s=None,
        status_age_s=None,
        counters={},
    )


@pytest.fixture
def fraud_watch() -> list[StreamSpec]:
    return [load_spec("fraud_watch")]


@pytest.mark.parametrize(
    ("watermark", "waits"),
    [
        (None, True),
        ("2025-01-06T00:59:59.999Z", True),
        ("2025-01-06T01:00:00.000Z", True),
        ("2025-01-06T01:00:00.001Z", False),
    ],
)
def test_late_events_wait_until_the_watermark_is_beyond_the_last_event(
    fraud_watch: list[StreamSpec], watermark: str | None, waits: bool
) -> None:
    reports = [report("fraud_watch", "running", watermark), report("other", "running", None)]
    assert bool(behind(fraud_watch, reports, {"payments": LAST})) == waits


def test_what_would_be_late_to_a_stream_is_refused(fraud_watch: list[StreamSpec]) -> None:
    others = report("other", "running", "2026-01-01T00:00:00.000Z")
    require_not_passed(fraud_watch, [report("fraud_watch", None, None), others], LAST)
    require_not_passed(fraud_watch, [report("fraud_watch", "stopped", "2025-01-06T01:00:00.000Z")], LAST)
    with pytest.raises(TooOldError, match=r"expected 2025-02-06T\S+ or later.*watermark of fraud_watch"):
        require_not_passed(fraud_watch, [report("fraud_watch", "stopped", "2025-02-06T00:00:00.000Z")], LAST)


@pytest.mark.parametrize("state", [None, "stopped", "failed"])
def test_late_events_need_a_stream_that_runs(fraud_watch: list[StreamSpec], state: str | None) -> None:
    with pytest.raises(NoReaderError, match="reads payments, found none of fraud_watch: trigger its DAG"):
        running_readers(fraud_watch, [report("fraud_watch", state, None)])


def test_only_streams_that_run_and_have_a_watermark_are_waited_for() -> None:
    specs = [load_spec("fraud_watch"), load_spec("user_sessions")]
    clockwork = specs[0].model_copy(update={"stream": "action_counts", "clock": "processing"})
    reports = [
        report("fraud_watch", "waiting", None),
        report("user_sessions", "stopped", None),
        report("action_counts", "running", None),
    ]
    assert [spec.stream for spec in running_readers([*specs, clockwork], reports)] == ["fraud_watch"]


def test_the_wait_has_a_deadline_and_says_who_is_behind(
    settings: Settings, fraud_watch: list[StreamSpec], tmp_path: Path
) -> None:
    status = tmp_path / "data" / "status" / "fraud_watch.json"
    status.parent.mkdir(parents=True)
    # A driver that is being started again is waited for all the same.
    now_at = "2025-01-06T02:00:00.000Z"
    named = {"stream": "fraud_watch", "run_id": "r1", "started_at": now_at, "updated_at": now_at}
    status.write_text(json.dumps({**named, "state": "failed", "watermark": "2025-01-06T00:30:00.000Z"}))
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(WatermarkError, match=r"within 3s, found fraud_watch at 2025-01-06T00:30:00.000Z"):
        wait_until_passed(
            settings,
            fraud_watch,
            {"payments": LAST},
            timedelta(seconds=3),
            clock=lambda: now[0],
            sleep=sleep,
        )
    assert now[0] == 3.0


def test_a_stream_that_waits_too_short_is_said_to_be_unknown(settings: Settings) -> None:
    spec = readers_of(settings, ["payments"])[0]
    assert problem_of(spec) is None
    short = spec.event_time.model_copy(update={"allowed_lateness": timedelta(seconds=10)})
    assert "allowed_lateness of at least 1m50s, found 10s" in str(
        problem_of(spec.model_copy(update={"event_time": short}))
    )
