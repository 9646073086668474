"""Configuration, control, status, checkpoint and ledger: the documents a driver reads and writes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from traceback import format_exception
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateward.contract.lease import LeaseRecord
from stateward.contract.process_identity import ProcessIdentity
from stateward.contract.stream_status import BOUNDS
from stateward.runtime.api.config import ConfigError, load_config, parse_config
from stateward.runtime.api.tables import BATCH_COUNTS
from stateward.runtime.checkpoint.checkpoint import Checkpoint, consumed
from stateward.runtime.driver.control import stop_reason
from stateward.runtime.driver.entry import record_refusal
from stateward.runtime.driver.failure import explain, is_transient
from stateward.runtime.kafka.reader import ReadError
from stateward.runtime.lease.lease import LeaseHeldError
from stateward.runtime.sink.ledger import BatchCounts, Ledger, recorded
from stateward.runtime.sink.output_rows import COUNT_NAMES
from stateward.runtime.telemetry.status import StatusFile

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROCESS = ProcessIdentity("h/b/n", 7, 1.5)
CONFIG: dict[str, Any] = {
    "version": 1,
    "stream": "user_sessions",
    "run_id": "r1",
    "bootstrap_servers": "localhost:1",
    "topic": "user_events",
    "topic_partitions": 3,
    "create_topics": True,
    "tick_topic": "ticks",
    "starting_offsets": "earliest",
    "max_records_per_batch": 20000,
    "trigger_interval_ms": 1000,
    "allowed_lateness_ms": 120000,
    "not_before": "2000-01-01T00:00:00Z",
    "max_ahead_ms": 3600000,
    "max_record_bytes": 1048576,
    "tick": {"mode": "auto", "interval_ms": 5000},
    "clock": "event",
    "emission": "watermark",
    "timeout_jitter_ms": 0,
    "logic": {"gap_ms": 1800000},
    "state_partitions": 4,
    "state_buckets": 64,
    "state_cache_dir": None,
    "spark_conf": {},
    "lease": {"uri": "file:///l", "ttl_ms": 20000, "renew_ms": 5000},
    "checkpoint_uri": "file:///c",
    "status_uri": "file:///s",
    "control_uri": "file:///k",
    "tables": {"sessions": "file:///t"},
}


def test_a_configuration_is_typed() -> None:
    config = parse_config(CONFIG, "here")

    assert config.not_before == datetime(2000, 1, 1, tzinfo=UTC)
    assert (config.lease.ttl_ms, config.tick.mode) == (20000, "auto")
    assert (config.state_buckets, config.state_cache_dir) == (64, None)
    assert (config.topics, config.topic) == (("user_events",), "user_events")
    several = {name: value for name, value in CONFIG.items() if name != "topic"} | {"topics": ["a", "b"]}
    assert parse_config(several, "here").topics == ("a", "b")
    assert parse_config({**CONFIG, "of a later release": 1}, "here") == config
    cached = parse_config({**CONFIG, "state_cache_dir": "/srv/cache", "emission": "eager"}, "here")
    assert (cached.state_cache_dir, cached.emission) == ("/srv/cache", "eager")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "expected version 1, found 2"),
        ({"topic": None}, "topic: expected str, found nothing"),
        ({"topics": []}, "topics: expected names of topics"),
        ({"topics": [1]}, r"topics: expected str, found \[1\]"),
        ({"topic_partitions": "3"}, "topic_partitions: expected int, found '3'"),
        ({"topic_partitions": True}, "topic_partitions: expected int, found True"),
        ({"clock": "sundial"}, "one of event, processing, found 'sundial'"),
        ({"emission": "later"}, "one of watermark, eager, found 'later'"),
        ({"state_buckets": None}, "state_buckets: expected int, found nothing"),
        ({"tick": {"mode": "hourly", "interval_ms": 1}}, "tick: .* found 'hourly'"),
        ({"tick": {"mode": "auto"}}, "tick.interval_ms: expected a value, found nothing"),
        ({"lease": {"uri": "x", "ttl_ms": "1", "renew_ms": 1}}, "lease.ttl_ms: expected int, found '1'"),
        ({"not_before": "yesterday"}, "expected a time such as .*, found 'yesterday'"),
        ({"lease": {"uri": "x", "ttl_ms": 5000, "renew_ms": 5000}}, "at least twice"),
    ],
)
def test_a_bad_configuration_is_refused_with_its_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config({**CONFIG, **change}, "here")


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no configuration at .*gone\.json"):
        load_config(f"file://{tmp_path}/gone.json")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ('{"desired": "running", "run_id": "r1"}', None),
        ('{"desired": "stopped", "run_id": "r1", "requested_by": "dag run x"}', "asked to stop by dag run x"),
        ('{"desired": "suspended", "run_id": "r1", "requested_by": "run y"}', "asked to suspend by run y"),
        ('{"desired": "running", "run_id": "r2"}', "run r2 is to take over"),
        (
            '{"run_id": "r1", "launch": {"run_id": "r1", "at": "2026-01-31T12:00:00+00:00", "host": "h",'
            ' "log": "/l", "end_reason": "it stalls"}}',
            "asked to end: it stalls",
        ),
        ("{half a docum", None),
        (None, None),
    ],
    ids=["go on", "stop", "suspend", "other run", "end", "unreadable", "absent"],
)
def test_control_says_when_to_leave(tmp_path: Path, document: str | None, expected: str | None) -> None:
    if document is not None:
        (tmp_path / "c.json").write_text(document)

    assert stop_reason(f"file://{tmp_path}/c.json", "r1") == expected


def status_file(uri: str, run_id: str = "r1") -> StatusFile:
    return StatusFile(
        uri, stream="user_sessions", run_id=run_id, process=PROCESS, python_pid=8, clock=lambda: NOW
    )


def test_a_status_is_whole_and_says_null_for_what_is_not_known(tmp_path: Path) -> None:
    status_file(f"file://{tmp_path}/status/s.json").update(epoch=3)
    document = json.loads((tmp_path / "status" / "s.json").read_text())

    assert (document["state"], document["epoch"], document["pid"], document["host"]) == (
        "starting",
        3,
        7,
        "h/b/n",
    )
    assert document["updated_at"] == "2026-01-01T00:00:00.000Z"
    assert document["delivered"] is None
    assert [path.name for path in (tmp_path / "status").iterdir()] == ["s.json"]


@pytest.mark.parametrize(("age_s", "shown"), [(2, "r1"), (60, "r2")])
def test_a_refusal_does_not_hide_the_holder_that_lives(tmp_path: Path, age_s: int, shown: str) -> None:
    uri = f"file://{tmp_path}/s.json"
    status_file(uri, "r1").update(state="running")
    record = LeaseRecord("user_sessions", 1, "r1", PROCESS, NOW, NOW, NOW + timedelta(hours=1), False)

    record_refusal(uri, status_file(uri, "r2"), LeaseHeldError(record), NOW + timedelta(seconds=age_s))

    document = json.loads((tmp_path / "s.json").read_text())
    assert document["run_id"] == shown
    assert document["state"] == ("running" if shown == "r1" else "refused")


def checkpoint_with(folder: Path, planned: int, committed: int) -> Checkpoint:
    for name, last in (("offsets", planned), ("commits", committed)):
        (folder / name).mkdir()
        for batch in range(last + 1):
            source = json.dumps({"t": {"0": batch * 10, "1": 5}, "ticks": {"0": 1}})
            times = json.dumps({"batchWatermarkMs": batch * 1000, "batchTimestampMs": 5000 + batch})
            text = f"v1\n{times}\n{source}"
            (folder / name / str(batch)).write_text(text)
            (folder / name / f".{batch}.crc").write_bytes(b"\x00")
    return Checkpoint(f"file://{folder}")


def test_a_checkpoint_with_a_pending_batch_is_not_clean(tmp_path: Path) -> None:
    checkpoint = checkpoint_with(tmp_path, planned=11, committed=10)

    assert (checkpoint.last_planned(), checkpoint.last_committed()) == (11, 10)
    assert not checkpoint.is_clean()
    batch = checkpoint.planned(10)
    assert batch is not None
    assert (batch.watermark_ms, batch.offsets["t"]) == (10_000, {0: 100, 1: 5})
    assert batch.planned_ms == 5010
    assert checkpoint.planned(12) is None


def test_a_checkpoint_that_does_not_exist_yet_is_clean(tmp_path: Path) -> None:
    checkpoint = Checkpoint(f"file://{tmp_path}/none")

    assert checkpoint.is_clean()
    assert checkpoint.query_id() is None
    assert checkpoint.initial_offsets() == {}


def test_batches_of_the_release_before_have_the_records_of_their_outcomes(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/batch_counts"
    old = pa.table({"stream": ["s"], "generation": ["g1"], "batch_id": [0], "accepted": [7], "dead": [2]})
    write_deltalake(uri, old)
    assert recorded(uri, "s", "g1", {})[1]["records"] == 9
    new = old.set_column(2, "batch_id", pa.array([1])).append_column("records", pa.array([9]))
    write_deltalake(uri, new, mode="append", schema_mode="merge")
    assert recorded(uri, "s", "g1", {})[1]["records"] == 18


def test_consumed_counts_from_where_the_checkpoint_began() -> None:
    assert consumed({"t": {0: 3}}, {"t": {0: 10, 1: 4}, "ticks": {0: 99}}, "t") == 11


def batch_of(number: int, accepted: int, rows_out: int = 0) -> BatchCounts:
    counts = {**dict.fromkeys(COUNT_NAMES, 0), "accepted": accepted}
    return BatchCounts(number, counts, {"sessions": rows_out}, watermark_ms=1000)


def test_a_batch_that_runs_again_is_counted_once(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/batch_counts"
    BATCH_COUNTS.create(uri)
    ledger = Ledger(uri, "s", "g1")
    for batch in (batch_of(0, 5), batch_of(1, 2, rows_out=1), batch_of(1, 2, rows_out=1)):
        ledger.append(batch, 1, "r1")
    again = Ledger(uri, "s", "g1")  # the driver crashed before the commit, and runs batch 1 again
    again.append(batch_of(1, 2, rows_out=1), 2, "r2")
    again.append(batch_of(2, 0), 2, "r2")
    again.append(batch_of(3, 1), 2, "r2")

    totals = Ledger(uri, "s", "g1").totals(3)
    assert (totals["accepted"], totals["rows_out"]) == (8, 1)
    assert ledger.totals(0)["accepted"] == 5
    assert Ledger(uri, "s", "g2").totals(9)["accepted"] == 0, "another generation starts at 0"


def test_a_generation_that_begins_with_its_first_batch_again_is_counted_from_there(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/batch_counts"
    BATCH_COUNTS.create(uri)
    before = Ledger(uri, "s", "g1")
    for number in range(8):
        before.append(batch_of(number, 1), 1, "r1")
    after = Ledger(uri, "s", "g2", {"g1": 7})  # a key was forgotten
    after.append(batch_of(1, 5), 2, "r2")
    assert after.totals(1)["accepted"] == 13
    again = Ledger(uri, "s", "g2", {"g1": 7})
    again.append(batch_of(1, 5), 3, "r3")
    assert again.totals(1)["accepted"] == 13, "it is recorded"


def test_what_bounds_have_cost_is_counted_in_a_table_of_an_earlier_release_too(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/batch_counts"
    columns = tuple(column for column in BATCH_COUNTS.columns if column.name not in BOUNDS)
    replace(BATCH_COUNTS, columns=columns, nullable=()).create(uri)
    assert recorded(uri, "s", "g1", {}) == (-1, dict.fromkeys((*COUNT_NAMES, "rows_out"), 0))

    for _ in range(2):
        BATCH_COUNTS.create(uri)
    ledger = Ledger(uri, "s", "g1")
    for number in range(3):
        counts = {**batch_of(number, 5).counts, "held_full": 1, "folded_early": 10}
        ledger.append(BatchCounts(number, counts, {}, watermark_ms=1000), 1, "r1")

    assert recorded(uri, "s", "g1", {})[1]["folded_early"] == 30
    assert recorded(uri, "s", "g1", {}, last_batch=1)[1]["folded_early"] == 20
    assert recorded(uri, "s", "g2", {"g1": 0})[1]["held_full"] == 1


def test_a_killed_worker_may_pass_and_a_wrong_schema_does_not() -> None:
    assert is_transient(RuntimeError("Python worker exited unexpectedly (crashed)"))
    assert is_transient(RuntimeError("y\nCaused by: java.io.IOException: Stream closed"))
    assert is_transient(RuntimeError(f"x\nCaused by: {''.join(format_exception(ReadError('y')))}"))
    assert not is_transient(RuntimeError("STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"))


def test_a_failure_is_explained_without_its_stack() -> None:
    error = RuntimeError("first\n\tat org.apache.Foo(Foo.scala:1)\nsecond")

    assert explain(error) == "RuntimeError: first second"


def test_the_root_cause_comes_first() -> None:
    error = RuntimeError(
        "Query failed\nx: a.B.OuterException: because\n\tat a.B(C:1)\nCaused by: d.RootError: disk"
    )

    assert explain(error) == "d.RootError: disk (in RuntimeError: Query failed)"
