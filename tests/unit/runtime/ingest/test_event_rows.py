"""One row per event for Spark's own operators, and the results that need no operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from stateward.runtime.api.record_fields import EVENT_TIME, TICK_KEY, Bounds, Field
from stateward.runtime.checkpoint.checkpoint import Checkpoint, PlannedBatch
from stateward.runtime.ingest.event_rows import EventRowDecoder, EventRowTask, to_decimal
from stateward.runtime.sink.output_rows import decode_rows
from stateward.runtime.watermark.topic_partitions import Topics

W = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SORTER = EventRowDecoder(
    key="user",
    fields=(
        Field("event_id", "text"),
        Field("user", "text"),
        Field("value", "number", required=False),
        Field("kind", "flag", required=False),
        EVENT_TIME,
    ),
    bounds=Bounds(0, 3_600_000, 1000),
    topics=Topics(("t",)),
    checkpoint_uri="file:///nowhere",
)


def record(event_id: str, ms: int, **changes: Any) -> bytes:
    at = datetime.fromtimestamp((W + ms) / 1000, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"event_id": event_id, "user": "u", "event_time": at, **changes}).encode()


def message(value: bytes, key: bytes = b"k", at: tuple[int, int] = (0, 0)) -> Message:
    return Message(partition=at[0], offset=at[1], key=key, value=value, timestamp=(1, W))


def rows_of(*messages: Message, ticks: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    load = EventRowTask(SORTER, PlannedBatch(7, {}, W, W))
    load.take(messages)
    for tick_ms in ticks:
        load.tick(tick_ms)
    found: Iterator[pa.RecordBatch] = load.rows()
    return [row for batch in found for row in batch.to_pylist()]


def settled(rows: list[dict[str, Any]]) -> dict[str, tuple[int, bytes]]:
    return {row["_kind"]: (row["_rows"], row["_data"]) for row in rows if row["_kind"]}


def test_an_event_at_the_watermark_is_a_row_and_one_before_it_is_on_file() -> None:
    rows = rows_of(message(record("on", 0, value=0.1), at=(1, 7)), message(record("late", -1), at=(2, 8)))
    (event,) = [row for row in rows if row["event_time"]]
    assert event["event_time"] == datetime(2026, 1, 1, 0, 0, 0, 1, UTC)  # a microsecond after it, for Spark
    assert (event["event_id"], event["user"], event["value"], event["kind"]) == (
        "on",
        "u",
        Decimal("0.1"),
        None,
    )
    size, data = settled(rows)["late_events"]
    (late,) = decode_rows(data).to_pylist()
    assert (size, late["event_id"], late["partition"], late["offset"]) == (1, "late", 2, 8)
    assert late["watermark"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert json.loads(late["value"])["event_id"] == "late"
    assert json.loads(settled(rows)["counts"][1])["times"]["newest"] == {"1": W, "2": W - 1}


def test_records_of_forgotten_keys_are_counted_and_nothing_else_is_known_of_them() -> None:
    load = EventRowTask(SORTER, PlannedBatch(7, {}, W, W))
    load.take([message(record("1", 5))])
    load.leave_out([message(record("2", 60_000), at=(1, 7))])
    rows = [row for batch in load.rows() for row in batch.to_pylist()]
    counts = json.loads(settled(rows)["counts"][1])
    assert (counts["records"], counts["others"], counts["duplicates"]) == (2, 1, 1)
    assert "1" not in counts["times"]["newest"], "its event time moves nothing"
    assert [row["event_id"] for row in rows if row["event_time"]] == ["1"]


def test_counts_take_every_event_on_time_for_a_duplicate_at_first() -> None:
    tick = message(b'{"tick": "2026-01-01T00:00:00Z"}', TICK_KEY.encode())
    rows = rows_of(
        message(record("1", 5)), message(record("1", 5)), message(b"junk"), message(record("2", -5)), tick
    )
    counts = json.loads(settled(rows)["counts"][1])
    times = counts.pop("times")
    assert (times["records"], times["ended"]) == (5, {"0": [0, W]})
    assert counts == {
        "dead": 1,
        "late": 1,
        "tick_records": 1,
        "duplicates": 2,
        "records": 5,
        "watermark_ms": W,
    }
    size, data = settled(rows)["dead_letters"]
    assert (size, decode_rows(data).to_pylist()[0]["value"]) == (1, b"junk")


def test_ticks_are_rows_of_their_own() -> None:
    rows = rows_of(ticks=(W + 1000,))
    assert [row["_tick_ts"] for row in rows] == [datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)]
    assert rows[0]["event_time"] is None


def test_nothing_comes_of_nothing() -> None:
    assert rows_of() == []


def test_the_columns_are_those_that_are_declared() -> None:
    assert SORTER.ddl.endswith(
        "event_time timestamp, `event_id` string, `user` string, `value` decimal(38,9), `kind` boolean"
    )
    assert [part.split()[0].strip("`") for part in SORTER.ddl.replace("38,9", "38").split(",")] == (
        SORTER.schema.names
    )


@pytest.mark.parametrize(
    ("number", "found"),
    [
        (None, None),
        (3, "3"),
        (-0.1, "-0.1"),
        (0.0000000005, "0.000000001"),
        (-0.0000000005, "-0.000000001"),
        (0.00000000049, "0"),
        (10**28 + 1, "10000000000000000000000000001"),
        (1e12, "1000000000000"),
    ],
)
def test_numbers_have_nine_decimals(number: float | None, found: str | None) -> None:
    assert to_decimal(number) == (None if found is None else Decimal(found))


def test_a_batch_whose_branches_end_apart_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    folder.mkdir()
    head = 'v1\n{"batchWatermarkMs": 5, "batchTimestampMs": 7}\n'
    (folder / "0").write_text(head + '{"t": {"0": 1}}\n{"t":{"0":1}}')
    (folder / "1").write_text(head + '{"t": {"0": 2}}\n{"t": {"0": 3}}')
    checkpoint = Checkpoint(f"file://{tmp_path}")
    planned = checkpoint.planned(0)
    assert planned is not None
    assert (planned.offsets, planned.watermark_ms) == ({"t": {0: 1}}, 5)
    with pytest.raises(RuntimeError, match="different ends"):
        checkpoint.planned(1)
