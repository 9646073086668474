"""The bucket processor in Spark's TwsTester, with the logic of user_sessions: state, copy, timers, rows.

A bucket's keys share one call, one log in the state store, and one timer.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from spark_jobs.user_sessions.declaration import JOB, SESSIONS
from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import SessionEvent
from stateward.contract.stream_status import BucketSize
from stateward.runtime.ingest.packed_format import LANE_DATA_TICK, LANE_DEAD, LANE_OTHER, LANE_TICK
from stateward.runtime.sink.output_rows import decode_rows
from stateward.testing.bucket_bench import BucketBench

GAP = 1000


class Bench(BucketBench):
    """A bucket of `user_sessions`."""

    def __init__(self, folder: Path | None, **limits: Any) -> None:
        super().__init__(folder, JOB, SessionLogic(GAP), **limits)

    @property
    def sessions(self) -> list[dict[str, Any]]:
        return self.rows[SESSIONS.name]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.end()


@pytest.fixture
def memory() -> Bench:
    return Bench(None)


def event(event_id: str, at: int, *, last: bool = False, gap: int | None = None) -> SessionEvent:
    return SessionEvent(event_id, at, "view", last, gap)


def test_a_session_is_emitted_by_the_timer_and_leaves_no_state(bench: Bench) -> None:
    bench.batch(("u", event("b", 600)), ("u", event("a", 100)))
    assert bench.counts["accepted"] == 2
    assert bench.timers == [1600] == [bench.reported]
    assert set(bench.states) == {"u"}

    bench.watermark(1599)
    assert bench.sessions == []
    bench.watermark(1600)

    assert [(s["user_id"], s["duration_ms"], s["event_count"]) for s in bench.sessions] == [("u", 500, 2)]
    assert bench.is_empty


def test_what_the_plan_lets_the_watermark_pass_is_kept_for_no_other_batch(memory: Bench) -> None:
    memory.batch(("u", event("a", 100)), ("u", event("b", 200)), ("v", event("c", 9000)), next_ms=5000)
    assert [(s["user_id"], s["event_count"]) for s in memory.sessions] == [("u", 2)]
    assert set(memory.states) == {"v"}, "the next batch would forget the ids of u"
    assert memory.timers

    # Lateness still depends on the current watermark.
    memory.batch(("u", event("d", 4999)), next_ms=5000)
    assert (memory.counts["duplicates"], memory.counts["late"]) == (0, 0)
    assert set(memory.states) == {"u", "v"}
    memory.watermark(5000)
    memory.batch(("u", event("d", 4999)), ("u", event("e", 4998)))
    assert (memory.counts["duplicates"], memory.counts["late"]) == (1, 1)
    memory.watermark(20_000)
    assert sorted((s["user_id"], s["event_count"]) for s in memory.sessions) == [("u", 1), ("u", 2), ("v", 1)]
    assert memory.is_empty


def test_the_keys_of_a_bucket_share_one_timer(bench: Bench) -> None:
    for number in range(5):
        bench.batch((f"u{number}", event("e", 100 + number * 200)))
        assert bench.timers == [1100]
    bench.watermark(1100)
    assert bench.timers == [1300] == [bench.reported]
    bench.watermark(1900)

    assert [s["user_id"] for s in bench.sessions] == [f"u{number}" for number in range(5)]
    assert bench.is_empty


def test_an_ended_session_keeps_only_its_ids_until_they_are_old(memory: Bench) -> None:
    memory.batch(("u", event("a", 100, last=True)))
    memory.watermark(101)
    assert [s["close_reason"] for s in memory.sessions] == ["ENDED"]
    assert memory.states == {"u": {"recent": [["a", 100]]}}

    memory.batch(("u", event("a", 100)))
    assert memory.counts["duplicates"] == 1
    memory.watermark(201)
    assert memory.is_empty


def test_a_late_event_comes_out_with_its_raw_record(memory: Bench) -> None:
    memory.watermark(500)
    memory.batch(("u", event("old", 499)), ("u", event("new", 500)), raw=b"raw")

    assert (memory.counts["accepted"], memory.counts["late"]) == (1, 1)
    [(kind, count, data)] = memory.other
    [late] = decode_rows(data).to_pylist()
    assert (kind, count) == ("late_events", 1)
    assert [late[name] for name in ("topic", "partition", "offset", "event_id", "key", "value")] == [
        "t",
        1,
        1,
        "old",
        "u",
        b"raw",
    ]


def test_an_event_below_the_floor_of_its_key_comes_out_with_its_raw_record() -> None:
    bench = Bench(None, max_held=2)
    bench.batch(*(("u", event(f"e{number}", 600 + number)) for number in range(5)))
    bench.in_kafka = {(1, 6): b"raw"}
    bench.batch(("u", event("below", 601)), ("v", event("other", 601)))

    [(kind, _, data)] = bench.other
    [late] = decode_rows(data).to_pylist()
    assert (kind, late["event_id"], late["offset"], late["value"]) == ("late_events", "below", 6, b"raw")


def test_what_the_bounds_of_a_key_have_cost_is_counted() -> None:
    bench = Bench(None, max_held=2)
    bench.batch(*(("u", event(f"e{number}", 600 + number)) for number in range(5)))
    bench.batch(("u", event("below", 601)), ("v", event("other", 601)))

    assert (bench.counts["held_full"], bench.counts["folded_early"], bench.counts["below_floor"]) == (1, 3, 1)
    assert (bench.counts["ids_full"], bench.counts["ids_forgotten"], bench.counts["late"]) == (1, 1, 1)


def test_dead_letters_and_ticks_pass_without_state(memory: Bench) -> None:
    dead = memory.tester.test((LANE_DEAD, 1), [Row(records=2, payload=b"letters")])
    ticks = memory.tester.test((LANE_DATA_TICK, 2), [Row(records=3, payload=None)])

    assert tuple(dead[0]) == ("dead_letters", 2, b"letters")
    assert json.loads(dead[1]["data"])["dead"] == 2
    assert json.loads(ticks[0]["data"])["tick_records"] == 3
    assert memory.tester.test((LANE_TICK, 0), [Row(records=1, payload=None)]) == []
    others = memory.tester.test((LANE_OTHER, 1), [Row(records=4, payload=None)])
    assert json.loads(others[0]["data"])["others"] == 4


def test_eager_emission_closes_on_arrival() -> None:
    bench = Bench(None, eager=True)
    bench.batch(("u", event("a", 100)), ("u", event("b", 200, last=True)))

    assert [(s["event_count"], s["close_reason"]) for s in bench.sessions] == [(2, "ENDED")]


def test_state_written_under_other_settings_still_ends(memory: Bench) -> None:
    memory.batch(("u", event("a", 100)))
    assert memory.timers == [1100]
    memory.processor._logic = SessionLogic(3000)

    memory.watermark(1100)
    memory.watermark(3100)

    # An open session keeps the gap that it started with, which is in its state.
    assert len(memory.sessions) == 1
    assert memory.is_empty


def test_a_copy_that_is_not_of_the_record_is_made_again(bench: Bench, tmp_path: Path) -> None:
    bench.batch(("u", event("a", 100)), ("v", event("a", 150)))
    bench.end_task()
    bench.batch(("u", event("b", 300)))
    bench.fail_task()  # the state that Spark has committed is newer than the copy
    bench.batch(("v", event("b", 400)))
    bench.move(tmp_path / "another machine")
    bench.watermark(2000)

    assert [(s["user_id"], s["event_count"]) for s in bench.sessions] == [("u", 2), ("v", 2)]
    assert bench.is_empty


def test_a_copy_that_is_ahead_of_the_record_is_made_again(bench: Bench) -> None:
    """A task that has finished runs again if Spark has not committed its batch."""
    bench.batch(("u", event("a", 100)))
    bench.end_task()
    record = copy.deepcopy(bench.tester.handle.__dict__)
    bench.batch(("u", event("b", 300)), ("v", event("b", 300)))
    bench.end_task()
    bench.tester.handle.__dict__.update(record)
    bench.processor.init(bench.tester.handle)
    bench.batch(("u", event("b", 300)))
    bench.watermark(5000)

    assert [(s["user_id"], s["event_count"]) for s in bench.sessions] == [("u", 2)]
    assert bench.is_empty


def true_size(bench: Bench) -> BucketSize:
    """The size by the log alone."""
    sizes = [len(key) + len(json.dumps(state, separators=(",", ":"))) for key, state in bench.states.items()]
    return BucketSize(0, len(sizes), sum(sizes), max(sizes, default=0))


def test_a_bucket_reports_its_size_whatever_comes_and_ends(bench: Bench, tmp_path: Path) -> None:
    for number in range(20):
        bench.batch(*((f"u{key}", event(f"{number}", number * 50 + key)) for key in range(number % 7)))
        if number % 3 == 2:
            bench.watermark(number * 50)
        if number == 8:
            bench.fail_task()  # the copy is older than the log, and built again
        if number == 14:
            bench.move(tmp_path / "another machine")
        if number in (9, 15) or number > 16:
            true = true_size(bench)
            assert bench.size[:3] == true[:3]
            assert 7 / 8 * true.largest < bench.size.largest <= true.largest
    bench.watermark(9000)
    assert bench.size == BucketSize(0, 0, 0, 0)
    assert bench.is_empty


def test_the_log_stays_in_proportion_to_what_is_live(bench: Bench) -> None:
    for number in range(60):
        bench.batch(*((f"u{key}", event(f"{number}", number * 10 + key)) for key in range(50)))
        bench.end_task()
        assert bench.logged <= 3 * 50 + 256 + 50

    assert len(bench.states) == 50
