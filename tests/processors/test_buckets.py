"""The bucket processor in Spark's TwsTester, with the logic of user_sessions: state, copy, timers, rows.

A bucket's keys share one call, one log in the state store, and one timer.
"""

from __future__ import annotations

import copy
import json
import marshal
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from spark_jobs.runtime import keyed, state_cache
from spark_jobs.runtime.admission import Limits
from spark_jobs.runtime.bucket_processor import BucketProcessor
from spark_jobs.runtime.lanes import LANE_DATA_TICK, LANE_DEAD, LANE_EVENT, LANE_TICK
from spark_jobs.runtime.rows import decode_rows
from spark_jobs.runtime.state_log import HEAD_NAME, LOG_NAME
from spark_jobs.user_sessions.declaration import JOB, SESSIONS
from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import SessionEvent

GAP = 1000
LATENESS = 100
BUCKET = (LANE_EVENT, 3)
Arrival = tuple[str, SessionEvent]


class _TwoColumnKey(BucketProcessor):
    """The tester wraps every key in a tuple of one; the engine gives the grouping columns themselves."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        return super().handleInputRows(key[0], rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        return super().handleExpiredTimer(key[0], timerValues, expiredTimerInfo)


class Bench:
    """One bucket under test; each call of `batch` and `watermark` is a micro-batch of its own."""

    def __init__(self, folder: Path, *, eager: bool = False, gap_ms: int = GAP) -> None:
        self.processor = _TwoColumnKey(
            logic=SessionLogic(gap_ms),
            state_type=JOB.state_type,
            event_type=JOB.event_type,
            outputs=JOB.outputs,
            limits=Limits(LATENESS, max_held=100, eager=eager),
            topic="t",
            state_version=1,
            cache_root=str(folder),
            checkpoint_uri="file:///checkpoint",
        )
        # Spark does not filter late rows in this query (the column with the watermark is not passed on).
        self.tester = TwsTester(self.processor, timeMode="EventTime", eventTimeExtractor=lambda row: 1 << 62)
        self.sessions: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self.other: list[tuple[str, int, bytes]] = []
        self.reported: int | None = None
        self._offset = 0

    def batch(self, *arrivals: Arrival, raw: bytes | None = None) -> None:
        records = []
        for key, event in arrivals:
            self._offset += 1
            records.append((key, 1, self._offset, 7, raw, *event))
        row = Row(records=len(records), payload=marshal.dumps(records))
        self._take(self.tester.test(BUCKET, [row]))

    def watermark(self, watermark_ms: int) -> None:
        self._take(self.tester.setWatermark(watermark_ms))

    def end_task(self) -> None:
        self.processor.close()

    def fail_task(self) -> None:
        """End a task whose changes to the copy are lost, as when its worker dies."""
        assert self.processor._cache is not None
        self.processor._cache.abort()
        self.processor._cache = None

    @property
    def states(self) -> dict[str, dict[str, Any]]:
        """The newest state of each key, as a reader of the state store finds it: by the log alone."""
        newest: dict[str, Any] = {}
        for _, value in sorted(self.tester.peekMapState(LOG_NAME, BUCKET).items()):
            newest |= json.loads(value[0])
        return {key: state for key, state in newest.items() if state is not None}

    @property
    def logged(self) -> int:
        return sum(len(json.loads(value[0])) for value in self.tester.peekMapState(LOG_NAME, BUCKET).values())

    @property
    def timers(self) -> list[int]:
        self.tester.handle.setGroupingKey(BUCKET)
        return list(self.tester.handle.listTimers())

    @property
    def is_empty(self) -> bool:
        return not self.states and not self.timers and self.tester.peekValueState(HEAD_NAME, BUCKET) is None

    def _take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row["kind"] == SESSIONS.name:
                found = decode_rows(row["data"]).to_pylist()
                assert len(found) == row["rows"]
                self.sessions += found
            elif row["kind"] == "counts":
                counts = json.loads(row["data"])
                counts.pop("watermark_ms", None)
                (self.reported,) = counts.pop("timers").values()
                self.counts.update(counts)
            else:
                self.other.append((row["kind"], row["rows"], row["data"]))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.end_task()
    close_copies()


def close_copies() -> None:
    for environment in state_cache._open.values():
        environment.close()
    state_cache._open.clear()


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


def test_the_keys_of_a_bucket_share_one_timer(bench: Bench) -> None:
    for number in range(5):
        bench.batch((f"u{number}", event("e", 100 + number * 200)))
        assert bench.timers == [1100]
    bench.watermark(1100)
    assert bench.timers == [1300] == [bench.reported]
    bench.watermark(1900)

    assert [s["user_id"] for s in bench.sessions] == [f"u{number}" for number in range(5)]
    assert bench.is_empty


def test_an_ended_session_keeps_only_its_ids_until_they_are_old(bench: Bench) -> None:
    bench.batch(("u", event("a", 100, last=True)))
    bench.watermark(101)
    assert [s["close_reason"] for s in bench.sessions] == ["ENDED"]
    assert bench.states == {"u": {"recent": [["a", 100]]}}

    bench.batch(("u", event("a", 100)))
    assert bench.counts["duplicates"] == 1
    bench.watermark(201)
    assert bench.is_empty


def test_a_late_event_comes_out_with_its_raw_record(bench: Bench) -> None:
    bench.watermark(500)
    bench.batch(("u", event("old", 499)), ("u", event("new", 500)), raw=b"raw")

    assert (bench.counts["accepted"], bench.counts["late"]) == (1, 1)
    [(kind, count, data)] = bench.other
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


def test_dead_letters_and_ticks_pass_without_state(bench: Bench) -> None:
    dead = bench.tester.test((LANE_DEAD, 1), [Row(records=2, payload=b"letters")])
    ticks = bench.tester.test((LANE_DATA_TICK, 2), [Row(records=3, payload=None)])

    assert tuple(dead[0]) == ("dead_letters", 2, b"letters")
    assert json.loads(dead[1]["data"])["dead"] == 2
    assert json.loads(ticks[0]["data"])["tick_records"] == 3
    assert bench.tester.test((LANE_TICK, 0), [Row(records=1, payload=None)]) == []


def test_eager_emission_closes_on_arrival(tmp_path: Path) -> None:
    bench = Bench(tmp_path, eager=True)
    bench.batch(("u", event("a", 100)), ("u", event("b", 200, last=True)))

    assert [(s["event_count"], s["close_reason"]) for s in bench.sessions] == [(2, "ENDED")]
    bench.end_task()
    close_copies()


def test_state_written_under_other_settings_still_ends(bench: Bench) -> None:
    bench.batch(("u", event("a", 100)))
    assert bench.timers == [1100]
    bench.processor._logic = SessionLogic(3000)

    bench.watermark(1100)
    bench.watermark(3100)

    # The gap of an open session is the one it began with, and its state tells so.
    assert len(bench.sessions) == 1
    assert bench.is_empty


def test_a_copy_that_is_not_of_the_record_is_made_anew(bench: Bench, tmp_path: Path) -> None:
    bench.batch(("u", event("a", 100)), ("v", event("a", 150)))
    bench.end_task()
    bench.batch(("u", event("b", 300)))
    bench.fail_task()  # what Spark has committed is ahead of the copy
    bench.batch(("v", event("b", 400)))
    bench.end_task()
    close_copies()
    bench.processor._cache_root = str(tmp_path / "another machine")
    bench.watermark(2000)

    assert [(s["user_id"], s["event_count"]) for s in bench.sessions] == [("u", 2), ("v", 2)]
    assert bench.is_empty


def test_a_copy_that_is_ahead_of_the_record_is_made_anew(bench: Bench) -> None:
    """A task that has ended, and whose batch Spark has not committed, runs again."""
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


def test_the_log_stays_in_proportion_to_what_is_live(bench: Bench) -> None:
    for number in range(60):
        bench.batch(*((f"u{key}", event(f"{number}", number * 10 + key)) for key in range(50)))
        bench.end_task()
        assert bench.logged <= 2 * 50 + 256 + 50

    assert len(bench.states) == 50


keys = st.sampled_from("abcdef")
timed = st.integers(0, 5000)
arrivals = st.lists(
    st.tuples(
        keys,
        st.builds(
            SessionEvent,
            event_id=st.uuids().map(str),
            event_ms=timed,
            event_type=st.sampled_from("xy"),
            is_last=st.integers(0, 6).map(lambda number: number == 0),
            timeout_ms=st.none() | st.integers(1, 2500),
        ),
    ),
    min_size=1,
    max_size=30,
)


@settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(events=arrivals, data=st.data())
def test_however_batches_tasks_and_copies_are_cut_the_rows_are_those_of_the_oracle(
    events: list[Arrival], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = Bench(tmp_path_factory.mktemp("copy"))
    delays = [data.draw(st.integers(0, LATENESS)) for _ in events]
    waiting = [e for _, e in sorted(zip(delays, events, strict=True), key=lambda p: p[0] + p[1][1].event_ms)]
    largest = watermark = 0
    while waiting:
        size = data.draw(st.integers(1, len(waiting)))
        batch, waiting = waiting[:size], waiting[size:]
        bench.batch(*batch)
        largest = max([largest, *(e.event_ms for _, e in batch)])
        {"end": bench.end_task, "fail": bench.fail_task, "go on": lambda: None}[
            data.draw(st.sampled_from(["end", "fail", "go on"]))
        ]()
        if largest - LATENESS > watermark:
            watermark = largest - LATENESS
            bench.watermark(watermark)
    for later in range(1, 4):
        bench.watermark(watermark + later * 10_000)

    expected = []
    for key in {key for key, _ in events}:
        expected += keyed.fold_all(SessionLogic(GAP), key, [e for owner, e in events if owner == key])
    assert sorted(s["session_id"] for s in bench.sessions) == sorted(row[0] for row in expected)
    assert sorted((s["session_id"], s["event_count"], s["duration_ms"]) for s in bench.sessions) == sorted(
        (row[0], row[5], row[4]) for row in expected
    )
    assert bench.counts["accepted"] == len(events)
    assert bench.timers == ([] if bench.reported is None else [bench.reported])
    assert bench.is_empty
    if bench.processor._cache is not None:
        bench.end_task()
    close_copies()
