"""The processor of user_sessions in Spark's TwsTester: state, timers and tagged rows, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from spark_jobs.runtime.source import LANE_DATA_TICK, LANE_DEAD, LANE_EVENT, LANE_TICK
from spark_jobs.user_sessions.model import STATE_NAME
from spark_jobs.user_sessions.processor import UserSessionsProcessor

GAP = 1000
LATENESS = 100
USER = (LANE_EVENT, "u")


class _TwoColumnKey(UserSessionsProcessor):
    """The tester wraps every key in a tuple of one; the engine gives the grouping columns themselves."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        return super().handleInputRows(key[0], rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        return super().handleExpiredTimer(key[0], timerValues, expiredTimerInfo)


def sessions_under_test(gap_ms: int = GAP, lateness_ms: int = LATENESS) -> TwsTester:
    processor = _TwoColumnKey(gap_ms, lateness_ms, max_held=100)
    # Spark does not filter late rows in this query (the column with the watermark is not passed on).
    return TwsTester(processor, timeMode="EventTime", eventTimeExtractor=lambda row: 1 << 62)


def record(event_id: str, at: int, **fields: Any) -> Row:
    values = {
        "event_ms": at,
        "topic": "t",
        "partition": 1,
        "offset": 42,
        "record_ms": 7,
        "record_key": None,
        "value": b"raw",
        "reason": None,
        "detail": None,
        "v_event_id": event_id,
        "v_event_type": "view",
        "v_is_last": None,
        "v_timeout_s": None,
        **fields,
    }
    return Row(**values)


def of_kind(rows: Any, kind: str) -> list[dict[str, Any]]:
    return [row[kind].asDict() for row in rows if row["kind"] == kind]


def timers(test: TwsTester) -> list[int]:
    test.handle.setGroupingKey(USER)
    return list(test.handle.listTimers())


def test_a_session_is_emitted_by_the_timer_and_leaves_no_state() -> None:
    test = sessions_under_test()
    counts = of_kind(test.test(USER, [record("b", 600), record("a", 100)]), "counts")
    assert [(c["accepted"], c["late"], c["duplicates"]) for c in counts] == [(2, 0, 0)]
    assert timers(test) == [1600]

    assert test.setWatermark(1599) == []
    closed = of_kind(test.setWatermark(1600), "session")

    assert [(s["user_id"], s["started_ms"], s["ended_ms"], s["event_count"]) for s in closed] == [
        ("u", 100, 600, 2)
    ]
    assert test.peekValueState(STATE_NAME, USER) is None
    assert timers(test) == []


def test_there_is_never_more_than_one_timer() -> None:
    test = sessions_under_test()
    for number in range(5):
        test.test(USER, [record(str(number), 100 + number * 200)])
        assert len(timers(test)) == 1
    test.setWatermark(500)
    test.test(USER, [record("later", 1100)])

    assert timers(test) == [2100]


def test_an_ended_session_keeps_only_its_ids_until_they_are_old() -> None:
    test = sessions_under_test()
    test.test(USER, [record("a", 100, v_is_last=True)])

    assert [s["close_reason"] for s in of_kind(test.setWatermark(101), "session")] == ["ENDED"]
    assert timers(test) == [201]
    assert of_kind(test.test(USER, [record("a", 100)]), "counts")[0]["duplicates"] == 1
    test.setWatermark(201)
    assert test.peekValueState(STATE_NAME, USER) is None


def test_a_late_event_comes_out_with_its_raw_record() -> None:
    test = sessions_under_test()
    test.setWatermark(500)
    rows = test.test(USER, [record("old", 499), record("new", 500)])

    assert of_kind(rows, "late") == [
        {
            "topic": "t",
            "partition": 1,
            "offset": 42,
            "record_ms": 7,
            "event_id": "old",
            "key": "u",
            "event_ms": 499,
            "watermark_ms": 500,
            "value": b"raw",
        }
    ]
    assert [(c["accepted"], c["late"]) for c in of_kind(rows, "counts")] == [(1, 1)]


def test_a_timeout_wish_in_seconds_is_the_gap() -> None:
    test = sessions_under_test()
    test.test(USER, [record("a", 100, v_timeout_s=Decimal("2.5"))])

    assert timers(test) == [2600]


def test_dead_letters_and_ticks_pass_without_state() -> None:
    test = sessions_under_test()
    dead = record("", 0, event_ms=None, record_key=b"k", reason="not_utf8", detail="d")
    rows = test.test((LANE_DEAD, "1"), [dead, dead])

    assert [(d["key"], d["value"], d["reason"]) for d in of_kind(rows, "dead")] == [
        (b"k", b"raw", "not_utf8")
    ] * 2
    assert of_kind(rows, "counts")[0]["dead"] == 2
    assert test.test((LANE_TICK, "0"), [record("", 0)]) == []
    ticks = of_kind(test.test((LANE_DATA_TICK, "2"), [record("", 0)] * 3), "counts")
    assert [(c["tick_records"], c["accepted"]) for c in ticks] == [(3, 0)]


def test_state_written_under_other_settings_still_ends() -> None:
    """A timer set under one gap fires under another: the key must get a new one, or would stay forever."""
    test = sessions_under_test(gap_ms=1000)
    test.test(USER, [record("a", 100)])
    assert timers(test) == [1100]
    test.processor._gap_ms = 3000

    test.setWatermark(1100)
    assert timers(test) == [3100]
    assert len(of_kind(test.setWatermark(3100), "session")) == 1
    assert test.peekValueState(STATE_NAME, USER) is None
