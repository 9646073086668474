"""The verdict of a chaos run sees what is wrong: a proof that cannot fail proves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from proof.chaos.disk import disk_at
from proof.chaos.truths import Found, topics_of, wrongly_sent
from proof.chaos.verdict import sent_twice, wrong_balance, wrong_output
from proof.traffic.records import EVENT, Record
from proof.truth.expected import Expected
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.support.full import ci_full
from tests.support.streams.traced import COUNTS

# It is about what the software is tested with.
pytestmark = ci_full

ROWS = [{"key": "a", "count": 1}, {"key": "b", "count": 2}]
COUNTED = {"accepted": 3, "dead": 0, "late": 0, "duplicates": 1, "tick_records": 3}
EXPECTED = Expected({"sums": ROWS}, COUNTED, [], [], 2)
BATCH = {"stream": "sums", "generation": "g", "batch_id": 0, **COUNTED}
STATUS = {"state": "stopped", "delivered": 4, "accepted": 3, "dead": 0, "late": 0, "duplicates": 1}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.of(Settings(home=tmp_path, data=f"file://{tmp_path}/data"))


def written(layout: Layout, rows: list[dict[str, Any]], batches: list[dict[str, Any]]) -> None:
    write_deltalake(layout.table_uri("sums"), pa.Table.from_pylist(rows))
    write_deltalake(layout.table_uri("batch_counts"), pa.Table.from_pylist(batches), partition_by="stream")


def test_what_is_as_expected_is_not_wrong(layout: Layout) -> None:
    written(layout, ROWS[::-1], [BATCH, {**BATCH, "stream": "another", "accepted": 7}])
    assert wrong_output(layout, "sums", EXPECTED) == {}


def test_a_row_that_is_there_twice_is_wrong(layout: Layout) -> None:
    written(layout, [*ROWS, ROWS[0]], [BATCH])
    assert wrong_output(layout, "sums", EXPECTED)["sums"]["found and expected"] == (3, 2)


def test_a_missing_table_is_wrong(layout: Layout) -> None:
    assert set(wrong_output(layout, "sums", EXPECTED)) == {"sums", "batch_counts"}


def test_a_batch_that_is_counted_twice_is_wrong(layout: Layout) -> None:
    nothing = dict.fromkeys(COUNTS, 0)
    written(layout, ROWS, [BATCH, {**BATCH, **nothing}])
    assert wrong_output(layout, "sums", EXPECTED) == {"batches twice": [("g", 0)]}


def test_counters_have_to_add_up_and_the_driver_to_be_drained() -> None:
    assert wrong_balance({"sums": STATUS}) == {}
    assert set(wrong_balance({"sums": {**STATUS, "delivered": 5}})) == {"status of sums"}
    assert set(wrong_balance({"sums": {**STATUS, "state": "running"}})) == {"status of sums"}


def test_a_message_that_was_sent_twice_is_found(tmp_path: Path) -> None:
    file = tmp_path / "alerts.jsonl"
    file.write_text(
        '{"message_id": "1", "at": 1}\n{"message_id": "2", "at": 1}\n{"message_id": "1", "at": 9}\n'
    )
    assert sent_twice([file]) == {"alerts.jsonl": ["1"]}


class _Feed:
    topic = "t"
    sent = (Record(EVENT, b"a", b"1"),)
    ticks = ((b"tick", b"2"),)


def test_the_topics_have_to_hold_what_was_sent_once() -> None:
    there = [Found("t", 0, 0, 0, b"a", b"1"), Found("t", 0, 1, 0, b"tick", b"2")]
    feeds: Any = [_Feed()]
    assert wrongly_sent(feeds, there) == {}
    assert wrongly_sent(feeds, [*there, there[0]]) == {"topics": {"missing": 0, "surplus": 1}}
    assert wrongly_sent(feeds, there[:1]) == {"topics": {"missing": 1, "surplus": 0}}


def test_each_stream_gets_its_topic() -> None:
    assert topics_of(("user_sessions", "event_windows", "fraud_watch", "raw_events")) == (
        "user_events",
        "payments",
    )
    assert topics_of(("raw_events",)) == ("user_events",)


def test_a_disk_is_full_and_then_is_not(tmp_path: Path) -> None:
    with disk_at(tmp_path / "disk") as disk:
        if disk.problem:
            pytest.skip(f"no file system can be mounted here: {disk.problem}")
        (disk.folder / "before").write_bytes(b"x" * 100_000)
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.folder / "after").write_bytes(b"x" * 100_000)
        disk.free()
        (disk.folder / "after").write_bytes(b"x" * 100_000)


def test_a_disk_with_nothing_on_it_can_be_filled_and_freed_too(tmp_path: Path) -> None:
    with disk_at(tmp_path / "disk") as disk:
        if disk.problem:
            pytest.skip(disk.problem)
        disk.fill()
        with pytest.raises(OSError, match="No space left on device"):
            (disk.folder / "more").write_bytes(b"\0" * 8192)
        disk.free()
        (disk.folder / "more").write_bytes(b"\0" * 8192)
