"""What is slow or large about a stream, and what is said of it, as a table."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from stateward.alerts.incident import IncidentState, Observation, next_incidents
from stateward.cli.status import health_table
from stateward.contract.measures import MEASURES
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Launch
from stateward.contract.stream_status import AwaitedExecutors, ClusterRoom, Status
from stateward.control.health.health import Limit, judge_health
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile.decide import Healthy, Observed, decide
from stateward.control.reconcile.observe import measure_limits, thresholds_of
from stateward.platform.report import as_document, stream_reports
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import load_spec
from stateward.project.spec_health import Health

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
DEFAULTS = measure_limits(Health())


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def status(**changes: Any) -> Status:
    """A driver whose every measure is there, and good."""
    well = Status(
        "s",
        "r1",
        "running",
        started_at=ago(9000),
        updated_at=ago(1),
        last_batch_at=ago(2),
        watermark=ago(120),
        caught_up=False,
        lag_records=50,
        lag_change_per_s=0.0,
        behind_since=ago(600),
        batch_duration_ms=840,
        state_rows=100,
        state_bytes=1_000_000,
        state_file_bytes=2_000_000,
        state_commit_ms=90.5,
        state_update_ms=0.05,
        state_removal_ms=3,
        memory_bytes=1_200_000_000,
    )
    return replace(well, **changes)


def test_a_stream_that_is_well_has_nothing_to_say() -> None:
    assert judge_health(DEFAULTS, status(), NOW) == ()


def test_every_limit_of_the_yaml_has_its_measure() -> None:
    assert DEFAULTS.keys() == MEASURES.keys()


def test_a_limit_that_the_yaml_names_replaces_both_defaults_and_no_others() -> None:
    named = {"state_commit": {"critical": "40s"}, "state_removal": {}, "lag": {"warn": 7}}
    limits = measure_limits(Health.model_validate({"limits": named}))
    assert limits["state_commit"] == Limit(None, 40.0)
    assert limits["state_removal"] == Limit()
    assert limits["lag"] == Limit(7, None)
    assert limits["state_update"] == DEFAULTS["state_update"] == Limit(0.010, 0.050)


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    # (measure, what the driver says, level and value with the defaults, words of the likely cause)
    ("commit_age", {"last_batch_at": ago(121)}, "warn 2 min", "takes very long or hangs"),
    ("commit_age", {"last_batch_at": ago(301)}, "critical 5 min", "takes very long or hangs"),
    ("commit_age", {"last_batch_at": None, "behind_since": ago(200)}, "warn 3 min", "hangs"),
    (
        "commit_age",
        {"last_batch_at": ago(301), "lag_change_per_s": 120.4},
        "critical 5 min",
        "grows by 120 records a second; raise state.partitions",
    ),
    ("batch_duration", {"batch_duration_ms": 61_000}, "warn 1 min 1 s", "lower source.max_records_per_batch"),
    ("batch_duration", {"batch_duration_ms": 301_000}, "critical 5 min", "max_records_per_batch"),
    ("event_time_behind", {"event_time_behind_ms": 7_260_000}, "warn 2 h 1 min", "partition with old events"),
    ("event_time_ahead", {"event_time_behind_ms": -61_000}, "warn 1 min 1 s", "earlier release"),
    ("event_time_ahead", {"event_time_behind_ms": -601_000}, "critical 10 min", "until that time has come"),
    ("dead_share", {"dead_share": 0.02}, "warn 2.0%", "`reason` in dead_letters"),
    ("late_share", {"late_share": 0.25}, "critical 25.0%", "allowed_lateness"),
    ("state_bytes", {"state_bytes": 1_000_000_001}, "warn 1.0 GB", "`stateward state inspect`"),
    ("state_bytes", {"state_file_bytes": 5_100_000_000}, "critical 5.1 GB", "more kept for each"),
    ("state_commit", {"state_commit_ms": 10_001}, "warn 10 s", "storage is slow"),
    ("state_commit", {"state_commit_ms": 30_000}, "warn 30 s", "storage is slow"),
    ("state_commit", {"state_commit_ms": 30_001}, "critical 30 s", "storage is slow"),
    ("state_update", {"state_update_ms": 10.6}, "warn 11 ms", "no longer fits into memory"),
    ("state_update", {"state_update_ms": 51}, "critical 51 ms", "no longer fits into memory"),
    ("state_removal", {"state_removal_ms": 5_001}, "warn 5 s", "timeout.jitter"),
    ("state_removal", {"state_removal_ms": 15_001}, "critical 15 s", "timeout.jitter"),
    ("key_growth", {"key_growth": 1.6}, "warn 1.6", "do not end"),
    ("key_growth", {"key_growth": 3.5}, "critical 3.5", "do not end"),
    ("state_growth", {"state_growth": 1.6}, "warn 1.6", "more is kept of each"),
    (
        "largest_key",
        {"state_keys": 101, "live_bytes": 120_000, "largest_key_bytes": 110_000},
        "critical 1,100.0",
        "an empty id",
    ),
    (
        "partition_imbalance",
        {"partition_bytes": {"0": 31_000_000, "1": 10_000_000}},
        "warn 3.1",
        "few buckets",
    ),
    ("partition_imbalance", {"partition_bytes": {"0": 9, "1": 110_000_000}}, "critical", "state advise"),
    ("memory_bytes", {"memory_bytes": 3_600_000_000, "updated_at": ago(60)}, "warn 3.6 GB", "large batches"),
    ("memory_bytes", {"memory_bytes": 6_100_000_000}, "critical 6.1 GB", "large batches"),
]


def without_executors(seconds: float, *, fits: bool = False) -> Status:
    room = ClusterRoom(1, 2, 2048, 2 if fits else 0, 2048, fits=fits, held={"other": 2})
    awaits = AwaitedExecutors(ago(seconds), 1, 1024, room)
    return status(state="waiting", awaits=awaits, message=str(awaits), last_batch_at=ago(1))


@pytest.mark.parametrize(
    ("seconds", "expected"), [(120, []), (121, ["warn executor_wait"]), (601, ["critical executor_wait"])]
)
def test_a_driver_without_executors_is_left_alone_and_reported(seconds: float, expected: list[str]) -> None:
    launch = Launch(run_id="r1", at=ago(9000), host="h", log="/l")
    control = Control("s", "running", "r1", ago(9000), "someone", "", launch=launch)
    limits = thresholds_of(load_spec("user_sessions"))
    waits = Observed(control, without_executors(seconds), Presence.ALIVE, stalled_since=ago(9000))
    action = decide(limits, waits, NOW)
    assert isinstance(action, Healthy)
    assert (
        "has 0 of 2 cores and 2048 of 2048 MiB free on 1 worker; cores are held by other (2)" in action.reason
    )
    assert [f"{one.level} {one.measure}" for one in action.warnings] == expected
    observation = Observation("s", action, waits, NOW)
    _, messages = next_incidents(IncidentState(), observation, timedelta(seconds=300))
    assert [one.kind for one in messages] == ["opened" for _ in expected]


def test_what_a_driver_without_executors_lacks_is_put_down_to_the_cluster() -> None:
    slow = replace(without_executors(700), last_batch_at=ago(700))
    findings = judge_health(DEFAULTS, slow, NOW)
    assert {one.measure for one in findings} == {"commit_age", "executor_wait"}
    for finding in findings:
        assert "add a worker, or let another application take less" in finding.cause
    [wait] = judge_health({"executor_wait": Limit(1)}, without_executors(700, fits=True), NOW)
    assert "is about to start, or ends at once" in wait.cause and "add a worker" not in wait.cause
    assert judge_health(DEFAULTS, status(state="waiting", last_batch_at=ago(700)), NOW) == ()


@pytest.mark.parametrize(
    ("measure", "said", "expected", "cause"), CASES, ids=[f"{one[0]} {one[2]}" for one in CASES]
)
def test_a_measure_above_its_default(measure: str, said: dict[str, Any], expected: str, cause: str) -> None:
    [finding] = judge_health(DEFAULTS, status(**said), NOW)
    level, _, value = expected.partition(" ")
    assert (finding.measure, finding.level) == (measure, level)
    assert value in finding.what
    assert cause in finding.cause
    assert finding.value > finding.limit


@pytest.mark.parametrize(
    ("measure", "limit", "said", "cause"),
    [
        ("lag", 1000, {"lag_records": 6000, "lag_change_per_s": -20.0}, "read in about 5 min"),
        ("lag", 1000, {"lag_records": 6000, "lag_change_per_s": 3.2}, "grows by 3 records a second"),
        ("lag", 1000, {"lag_records": 6000, "lag_change_per_s": None}, "known after a minute"),
        ("lag_growth", 10, {"lag_change_per_s": 11.0}, "more comes in than is read"),
        ("watermark_delay", 600, {"watermark": ago(601)}, "neither grows nor shrinks"),
        ("watermark_delay", 600, {"watermark": ago(601), "caught_up": True}, "source.tick"),
        ("state_rows", 99, {}, "more keys than planned"),
        ("state_keys", 99, {"state_keys": 100}, "more keys than planned"),
        ("bytes_per_key", 500, {"state_keys": 10, "live_bytes": 6000}, "more is kept of each key"),
    ],
)
def test_what_depends_on_the_stream_is_judged_once_it_has_a_limit(
    measure: str, limit: float, said: dict[str, Any], cause: str
) -> None:
    assert judge_health(DEFAULTS, status(**said), NOW) == ()
    [finding] = judge_health({**DEFAULTS, measure: Limit(warn=limit)}, status(**said), NOW)
    assert finding.measure == measure
    assert cause in finding.cause


@pytest.mark.parametrize(
    "said",
    [
        {"behind_since": None, "last_batch_at": ago(9000), "lag_records": 0},
        {"behind_since": ago(3), "last_batch_at": ago(9000)},
        {"state": "starting", "batch_duration_ms": 999_999},
        {"state": "stopped", "memory_bytes": 9_000_000_000},
        {"updated_at": ago(61), "memory_bytes": 9_000_000_000},
        {"state_commit_ms": 10_000, "state_update_ms": 10, "memory_bytes": 3_500_000_000},
    ],
    ids=["quiet", "first record after quiet", "starts", "stopped", "silent", "at its limit"],
)
def test_what_is_no_reason_to_look(said: dict[str, Any]) -> None:
    assert judge_health(DEFAULTS, status(**said), NOW) == ()


def test_ordinary_load_is_no_reason_for_a_warning_of_memory() -> None:
    """By the figure of docs/health.md, with a margin: a warning that is always on is none."""
    page = (CHECKOUT / "docs" / "health.md").read_text()
    found = re.search(r"at\s+most ([\d.]+) GB", page)
    assert found, "the page has the figure"
    measured, limit = float(found[1]) * 1e9, DEFAULTS["memory_bytes"]
    assert limit.warn is not None and limit.critical is not None
    assert judge_health(DEFAULTS, status(memory_bytes=int(measured)), NOW) == ()
    assert 1.3 * measured <= limit.warn <= 2 * measured


def test_a_driver_of_an_earlier_release_is_judged_by_what_it_says() -> None:
    old = Status("s", "r1", "running", started_at=ago(9), updated_at=ago(1), state_bytes=6_000_000_000)
    assert [finding.measure for finding in judge_health(DEFAULTS, old, NOW)] == ["state_bytes"]


def test_slow_batches_are_put_down_to_what_makes_them_slow_and_the_worst_comes_first() -> None:
    slow = status(batch_duration_ms=61_000, state_commit_ms=40_000)
    found = judge_health(DEFAULTS, slow, NOW)
    assert [(finding.level, finding.measure) for finding in found] == [
        ("critical", "state_commit"),
        ("warn", "batch_duration"),
    ]
    assert found[1].cause == "the checkpoint's storage is slow"
    assert str(found[1]) == (
        "warn: the last batch took 1 min 1 s (limit 1 min). Likely cause: the checkpoint's storage is slow"
    )


def test_status_shows_what_is_slow_by_the_limits_of_the_yaml(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    times = {"started_at": NOW.isoformat(), "updated_at": NOW.isoformat()}
    for stream, size in (("user_sessions", 6_500_000_000), ("fraud_watch", 1_000)):
        document = {"stream": stream, "run_id": "r", "state": "running", "memory_bytes": size, **times}
        write_json(Layout.of(settings).status_uri(stream), document)

    reports = stream_reports(settings, NOW)
    table = health_table(reports)

    assert {one.stream: [f.level for f in one.findings] for one in reports if one.findings} == {
        "user_sessions": ["critical"]
    }
    assert table is not None
    console = Console(record=True, width=160)
    console.print(table)
    text = console.export_text()
    assert "6.5 GB of memory (limit 6.0 GB)" in text
    assert "user_sessions" in text and "fraud_watch" not in text
    assert health_table([one for one in reports if one.stream != "user_sessions"]) is None


def test_findings_are_part_of_the_json(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    [first, *_] = (report.stream for report in stream_reports(settings, NOW))
    document = as_json(Status(first, "r", "running", NOW, NOW, late_share=0.05))
    write_json(Layout.of(settings).status_uri(first), document)
    [found, *_] = as_document(settings, NOW)["streams"]
    assert list(found["findings"]) == [
        {
            "level": "warn",
            "measure": "late_share",
            "value": 0.05,
            "limit": 0.01,
            "what": "5.0% of the records of ten minutes are late (limit 1.0%)",
            "cause": "a producer is later than allowed_lateness, or its clock is behind; see late_events",
        }
    ]
