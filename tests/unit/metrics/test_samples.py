"""Metrics: what is said of a stream in any state, and that nothing unknown becomes a 0."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest, openmetrics, parser
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics

from stateward.contract.reading import as_json
from stateward.contract.storage import read_json, write_json
from stateward.contract.stream_control import Hold
from stateward.contract.stream_status import BOUNDS, OperatorState
from stateward.control.reconcile.observe import supervisor_uri
from stateward.metrics import catalogue
from stateward.metrics.exposition import exposition, families
from stateward.pages.streams.documents import read_streams
from stateward.project.layout import Layout
from tests.support.pages.sample_streams import MINUTE, Sample, Written, installation

NOW = datetime(2026, 2, 3, 14, 30, tzinfo=UTC)
STREAM = "user_sessions"
P = "stateward_stream_"

Labels = frozenset[tuple[str, str]]


class _Kept:
    """A collector of what is there already."""

    def __init__(self, kept: list[Metric]) -> None:
        self._kept = kept

    def collect(self) -> list[Metric]:
        return self._kept


def registry_of(written: Written, now: datetime = NOW) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Kept(families(read_streams(written.settings, past=False), now)))
    return registry


def scraped(written: Written, now: datetime = NOW) -> dict[tuple[str, Labels], float]:
    """Every sample that Prometheus would read, by its name and labels; none twice."""
    text = generate_latest(registry_of(written, now)).decode()
    found = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def value(written: Written, name: str, now: datetime = NOW, **labels: str) -> float | None:
    wanted = frozenset({"stream": STREAM, **labels}.items())
    return scraped(written, now).get((P + name, wanted))


def state(written: Written, now: datetime = NOW) -> str:
    label = f"{P}state"
    found = {
        dict(labels)[label]: is_so
        for (name, labels), is_so in scraped(written, now).items()
        if name == label and ("stream", STREAM) in labels
    }
    assert set(found) == set(catalogue.STATES)
    [current] = [word for word, is_so in found.items() if is_so]
    return current


def change(written: Written, uri: str, **fields: Any) -> None:
    document = read_json(uri)
    assert document is not None
    write_json(uri, {**document, **fields})


def change_status(written: Written, **fields: Any) -> None:
    change(written, Layout.of(written.settings).status_uri(STREAM), **fields)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """One stream that runs and has said everything a driver can say."""
    written = installation(tmp_path, NOW)
    limits = {"limits": {"lag": {"warn": 100, "critical": 1000}, "state_commit": {}}}
    written.stream(STREAM, [Sample(NOW, "a", lag=400)], health=limits)
    change_status(
        written,
        generation=2,
        behind_since="2026-02-03T14:29:50Z",
        lag_change_per_s=-2.5,
        event_time_behind_ms=5_000,
        dead_share=0.005,
        late_share=0.0025,
        without_record=12,
        state_file_bytes=50_000_000,
        state_commit_ms=85.5,
        state_update_ms=0.031,
        state_removal_ms=2.0,
        memory_bytes=1_250_000_000,
        dead=3,
        bounds=dict.fromkeys(BOUNDS, 7),
    )
    operator = OperatorState("symmetricHashJoin", 1000, 20, 5, 3_000_000, 2_000_000, 250.0, 90, 10)
    change_status(
        written,
        operators=[as_json(operator), {"name": "dedupe"}],
        state_keys=10_001,
        live_bytes=22_000_000,
        largest_key_bytes=2_000_000,
        key_growth=1.2,
        state_growth=1.4,
        partition_bytes={"0": 16_000_000, "1": 4_000_000},
        awaits={"since": "2026-02-03T14:28:00Z", "cores": 1, "memory_mb": 1024},
        lag_by_topic={"web": 3, "app": 4},
    )
    change(written, Layout.of(written.settings).control_uri(STREAM), failures=4)
    return written


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "readable": 1,
        "desired": 1,
        "up": 1,
        "held": 0,
        "supervised": 1,
        "status_age_seconds": 0,
        "driver_start_time_seconds": (NOW - 5 * MINUTE).timestamp(),
        "epoch": 3,
        "generation": 2,
        "restarts_total": 4,
        "last_commit_age_seconds": 2,
        "records_waiting_seconds": 2,
        "executor_wait_seconds": 120,
        "lag_records": 400,
        "lag_growth_records_per_second": -2.5,
        "watermark_delay_seconds": 125,
        "event_time_behind_seconds": 5,
        "event_time_ahead_seconds": 0,
        "dead_ratio": 0.005,
        "late_ratio": 0.0025,
        "batch_duration_seconds": 1.24,
        "state_rows": 100_000,
        "state_bytes": 50_000_000,
        "state_commit_seconds": 0.0855,
        "state_update_seconds": 0.000031,
        "state_removal_seconds": 0.002,
        "memory_bytes": 1_250_000_000,
        "state_keys": 10_001,
        "state_bytes_per_key": 22_000_000 / 10_001,
        "largest_key_bytes": 2_000_000,
        "largest_key_ratio": 1000,
        "key_growth_ratio": 1.2,
        "state_growth_ratio": 1.4,
        "partition_imbalance_ratio": 4,
    }.items(),
)
def test_a_stream_that_runs_is_told_in_base_units(written: Written, name: str, expected: float) -> None:
    assert value(written, name) == pytest.approx(expected)


def test_each_partition_has_its_size_and_a_driver_of_the_release_before_says_nothing(
    written: Written,
) -> None:
    assert value(written, "partition_state_bytes", partition="1") == 4_000_000
    assert value(written, "breach", measure="partition_imbalance", level="warn") == 1
    assert value(written, "breach", measure="largest_key", level="critical") == 0
    before = (
        "key_growth",
        "state_growth",
        "state_keys",
        "live_bytes",
        "largest_key_bytes",
        "partition_bytes",
        "operators",
        "buckets",
    )
    change_status(written, **dict.fromkeys(before))
    names = {name for name, _ in scraped(written)}
    assert not {name for name in names if "operator_" in name or "partition_" in name or "_key" in name}


def test_the_lag_of_each_topic_has_its_name_as_long_as_the_driver_runs(written: Written) -> None:
    assert value(written, "topic_lag_records", topic="app") == 4
    assert value(written, "topic_lag_records", NOW + 5 * MINUTE, topic="app") is None


def test_each_operator_is_told_as_far_as_spark_has_counted_it(written: Written) -> None:
    expected = {
        "rows": 1000,
        "updated_rows": 20,
        "removed_rows": 5,
        "memory_bytes": 3_000_000,
        "file_bytes": 2_000_000,
        "commit_seconds": 0.25,
        "cache_hits": 90,
        "cache_misses": 10,
    }
    for name, number in expected.items():
        assert value(written, f"operator_{name}", operator="symmetricHashJoin") == number
        assert value(written, f"operator_{name}", operator="dedupe") is None
    assert value(written, "operator_rows", NOW + 5 * MINUTE, operator="symmetricHashJoin") is None


def test_records_are_counted_by_outcome_for_each_generation_of_the_checkpoint(written: Written) -> None:
    assert value(written, "delivered_records_total", generation="2") == 60_000
    assert value(written, "offsets_without_record_total", generation="2") == 12
    assert value(written, "records_total", outcome="dead", generation="2") == 3
    assert value(written, "records_total", outcome="late", generation="2") == 60_000 // 7_000
    assert value(written, "rows_written_total", generation="2") == 60_000 // 11
    assert value(written, "bound_costs_total", bound="ids_full", generation="2") == 7

    # A driver of an earlier release does not say which one it is.
    change_status(written, generation=None)
    assert value(written, "delivered_records_total", generation="") == 60_000
    assert value(written, "generation") is None


def test_limits_are_told_and_what_is_above_them(written: Written) -> None:
    assert value(written, "limit", measure="lag", level="critical") == 1000
    assert value(written, "limit", measure="commit_age", level="warn") == 120
    assert value(written, "limit", measure="state_commit", level="warn") is None
    assert value(written, "breach", measure="lag", level="warn") == 1
    assert value(written, "breach", measure="lag", level="critical") == 0
    assert value(written, "breach", measure="state_commit", level="warn") is None
    change_status(written, lag_records=1001)
    assert value(written, "breach", measure="lag", level="warn") == 1
    assert value(written, "breach", measure="lag", level="critical") == 1


def test_what_a_driver_has_not_said_has_no_sample(written: Written) -> None:
    change_status(
        written,
        **dict.fromkeys(("lag_records", "watermark", "last_batch_at", "delivered", "bounds", "epoch")),
    )
    names = {name for name, _ in scraped(written)}
    gone = ("lag_records", "watermark_delay_seconds", "last_commit_age_seconds", "records_waiting_seconds")
    assert names.isdisjoint(
        P + name for name in (*gone, "delivered_records_total", "bound_costs_total", "epoch")
    )
    assert f"{P}batch_duration_seconds" in names
    assert value(written, "breach", measure="lag", level="warn") is None


def test_of_a_silent_driver_only_what_is_still_true_is_told(written: Written) -> None:
    later = NOW + 5 * MINUTE
    assert value(written, "up", later) == 0
    assert value(written, "status_age_seconds", later) == 300
    assert value(written, "watermark_delay_seconds", later) == 425
    assert value(written, "last_commit_age_seconds", later) == 302
    assert value(written, "delivered_records_total", later, generation="2") == 60_000
    names = {name for name, _ in scraped(written, later)}
    gone = ("lag_records", "memory_bytes", "batch_duration_seconds", "state_bytes", "breach")
    assert names.isdisjoint(P + name for name in gone)
    assert value(written, "supervised", later) == 0


def test_the_states_are_those_of_the_operators_page(written: Written) -> None:
    assert state(written) == "running"
    assert state(written, NOW + 5 * MINUTE) == "failed"
    written.stream(STREAM, [Sample(NOW, "a", "waiting")])
    assert (state(written), value(written, "up")) == ("waiting", 1)
    written.stream(STREAM, [Sample(NOW, "a", "stopped")], hold=Hold("o/r", "repartition", NOW))
    assert (state(written), value(written, "held"), value(written, "up")) == ("held", 1, 0)
    change(written, Layout.of(written.settings).control_uri(STREAM), desired="stopped")
    assert (state(written), value(written, "desired")) == ("stopped", 0)
    Path(Layout.of(written.settings).control_uri(STREAM).removeprefix("file://")).unlink()
    assert (state(written), value(written, "desired")) == ("never_started", None)

    page = Path(__file__).resolve().parents[3] / "docs" / "operators-page.md"
    table = page.read_text().split("| word |")[1].split("\n\n")[0]
    missing = [word for word in catalogue.STATES if word.replace("_", " ") not in table]
    assert missing == []


def test_nobody_supervises_where_nobody_has_said_so(written: Written) -> None:
    Path(supervisor_uri(Layout.of(written.settings), STREAM).removeprefix("file://")).unlink()
    assert value(written, "supervised") == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"lag_records": "many"},
        {"epoch": [3]},
        {"delivered": True},
        {"bounds": [1]},
        {"updated_at": "yesterday"},
        {"memory_bytes": {"rss": 1}},
        {"batch_duration_ms": float("nan")},
    ],
    ids=str,
)
def test_a_document_that_makes_no_sense_hides_no_other_stream(
    written: Written, wrong: Mapping[str, Any]
) -> None:
    written.stream("fraud_watch", [Sample(NOW, "a")])
    change_status(written, **wrong)
    found = scraped(written)
    assert found[P + "readable", frozenset({("stream", STREAM)})] == 0
    assert found[P + "readable", frozenset({("stream", "fraud_watch")})] == 1
    assert found[P + "up", frozenset({("stream", "fraud_watch")})] == 1


def test_a_control_document_that_cannot_be_read_makes_its_stream_unreadable(written: Written) -> None:
    written.stream("fraud_watch", [Sample(NOW, "a")])
    Path(Layout.of(written.settings).control_uri(STREAM).removeprefix("file://")).write_text("{")
    assert value(written, "readable") == 0
    assert value(written, "up") is None
    assert value(written, "limit", measure="lag", level="warn") == 100
    assert scraped(written)[P + "up", frozenset({("stream", "fraud_watch")})] == 1


def test_a_broken_yaml_leaves_what_the_driver_says(written: Written) -> None:
    (written.settings.streams / f"{STREAM}.yaml").write_text("stream: user_sessions\n")
    assert value(written, "readable") == 0
    assert value(written, "lag_records") == 400
    assert value(written, "up") is None


def test_a_broken_file_of_a_streams_own_name_is_told_once(written: Written) -> None:
    (written.settings.streams / f"{STREAM}.yml").write_text("stream: other\n")
    assert value(written, "readable") == 0
    assert value(written, "up") == 1


def test_every_metric_is_there_in_both_formats_and_no_value_is_lost(written: Written) -> None:
    registry = registry_of(written)
    text = generate_latest(registry).decode()
    open_text = generate_openmetrics(registry).decode()
    plain = {sample.name for one in parser.text_string_to_metric_families(text) for sample in one.samples}
    open_ = {sample.name for one in read_openmetrics(open_text) for sample in one.samples}
    assert plain == open_ == {family.name for family in catalogue.FAMILIES}
    kinds = {one.name: one.type for one in read_openmetrics(open_text)}
    assert kinds == {family.name.removesuffix("_total"): family.kind for family in catalogue.FAMILIES}


def test_a_reader_gets_the_format_it_asks_for(written: Written) -> None:
    assert exposition(written.settings)[1].startswith("text/plain; version=0.0.4")
    asked = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
    content, content_type = exposition(written.settings, asked)
    assert content_type.startswith(openmetrics.exposition.CONTENT_TYPE_LATEST.split(";")[0])
    assert content.endswith(b"# EOF\n")


def test_neither_history_nor_reports_are_read_for_a_scrape(written: Written) -> None:
    [read] = read_streams(written.settings, past=False)
    assert (read.samples, read.links) == ((), ())
    [page] = read_streams(written.settings)
    assert page.samples
    assert page.links


def test_the_command_prints_what_is_served(
    written: Written, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from stateward.cli.metrics import run

    for name, setting in written.settings.environment().items():
        monkeypatch.setenv(name, setting)
    run()
    names = {one.name for one in parser.text_string_to_metric_families(capsys.readouterr().out)}
    assert f"{P}records" in names
