"""Between the engine and `logic`: the only file here that knows ``StatefulProcessor``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from spark_jobs.runtime.admission import Limits, Seen
from spark_jobs.runtime.rows import KIND_COUNTS, KIND_DEAD, KIND_LATE
from spark_jobs.runtime.source import LANE_DATA_TICK, LANE_DEAD, LANE_EVENT
from spark_jobs.user_sessions.logic import Step, advance, next_wake_up
from spark_jobs.user_sessions.model import (
    STATE_DDL,
    STATE_NAME,
    ClosedSession,
    OpenSession,
    SessionEvent,
    UserState,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
        ValueState,
    )

KIND_SESSION = "session"
_KINDS = ("kind", KIND_SESSION, KIND_LATE, KIND_DEAD, KIND_COUNTS)
_OutputRow = Row(*_KINDS)
_Counts = Row("accepted", "dead", "late", "duplicates", "tick_records", "watermark_ms")
_Session = Row(*ClosedSession.__dataclass_fields__)
_OpenSession = Row(*OpenSession.__dataclass_fields__)
_Event = Row(*SessionEvent.__dataclass_fields__)
_Seen = Row(*Seen.__dataclass_fields__)
_Late = Row(
    "topic", "partition", "offset", "record_ms", "event_id", "key", "event_ms", "watermark_ms", "value"
)
_Dead = Row("topic", "partition", "offset", "record_ms", "key", "value", "reason", "detail")


class UserSessionsProcessor(StatefulProcessor):
    """Sessions per user; ticks and dead letters pass through on lanes of their own.

    One value of state and at most one timer per user. A timer is set to the earliest watermark at which
    something is to be done, and every call ends with either a timer or no state.

    Args:
        gap_ms: The stream's gap.
        lateness_ms: Allowed lateness.
        max_held: Largest number of events held per user.
    """

    def __init__(self, gap_ms: int, lateness_ms: int, max_held: int) -> None:
        self._gap_ms = gap_ms
        self._limits = Limits(lateness_ms, max_held)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by the engine once per task."""
        self._handle = handle
        self._state: ValueState = handle.getValueState(STATE_NAME, STATE_DDL)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Called by the engine with all rows of a key in a batch."""
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        lane, name = key
        if lane == LANE_EVENT:
            yield from self._user(name, list(rows), watermark_ms)
        elif lane == LANE_DEAD:
            yield from _dead_letters(rows, watermark_ms)
        elif lane == LANE_DATA_TICK:
            yield _counts(watermark_ms, tick_records=sum(1 for _ in rows))

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Called by the engine when the watermark has reached the key's timer, which it then deletes."""
        expired_ms = expiredTimerInfo.getExpiryTimeInMs()
        step = self._advance(key[1], [], timerValues.getCurrentWatermarkInMs(), expired_ms)
        yield from map(_session_row, step.closed)

    def close(self) -> None:
        """Nothing is held open."""

    def _user(self, user_id: str, rows: list[Row], watermark_ms: int) -> Iterator[Row]:
        # Rows of one key come in no particular order; a stable choice between equal ids keeps a re-run the
        # same.
        rows.sort(key=lambda row: (row["event_ms"], row["v_event_id"], row["partition"], row["offset"]))
        arrivals = [_ArrivedEvent.of(row) for row in rows]
        step = self._advance(user_id, arrivals, watermark_ms)
        yield from map(_session_row, step.closed)
        for event in step.admission.late:
            yield _late_row(event, user_id, watermark_ms)
        yield _counts(
            watermark_ms,
            accepted=step.admission.accepted,
            late=len(step.admission.late),
            duplicates=step.admission.duplicates,
        )

    def _advance(
        self,
        user_id: str,
        arrivals: list[_ArrivedEvent],
        watermark_ms: int,
        expired_ms: int | None = None,
    ) -> Step:
        before = _read_state(self._state.get())
        step = advance(
            user_id,
            before,
            arrivals,
            watermark_ms=watermark_ms,
            default_gap_ms=self._gap_ms,
            limits=self._limits,
        )
        if step.state.is_empty:
            if not before.is_empty:
                self._state.clear()
        elif step.state != before:
            self._state.update(_write_state(step.state))
        # After a change of settings the timer that is set may not be the one that would be set today. The
        # one that fired is gone in any case, so a key that keeps state always gets a new one.
        old_ms = self._wake_up(user_id, before) if expired_ms is None else None
        self._set_timer(old_ms, self._wake_up(user_id, step.state), watermark_ms)
        return step

    def _wake_up(self, user_id: str, state: UserState) -> int | None:
        return next_wake_up(user_id, state, default_gap_ms=self._gap_ms, limits=self._limits)

    def _set_timer(self, old_ms: int | None, new_ms: int | None, watermark_ms: int) -> None:
        if old_ms == new_ms:
            return
        # One that has expired is deleted by the engine.
        if old_ms is not None and old_ms > watermark_ms:
            self._handle.deleteTimer(old_ms)
        if new_ms is not None:
            self._handle.registerTimer(new_ms)


@dataclass(frozen=True)
class _ArrivedEvent(SessionEvent):
    """An event that still knows the record it came in, in case it is late."""

    row: Row | None = field(default=None, compare=False)

    @classmethod
    def of(cls, row: Row) -> _ArrivedEvent:
        timeout_s = row["v_timeout_s"]
        return cls(
            event_id=row["v_event_id"],
            event_ms=row["event_ms"],
            event_type=row["v_event_type"],
            is_last=bool(row["v_is_last"]),
            timeout_ms=None if timeout_s is None else int(timeout_s * 1000),
            row=row,
        )


def _late_row(event: SessionEvent, user_id: str, watermark_ms: int) -> Row:
    assert isinstance(event, _ArrivedEvent)  # only arrivals are late
    assert event.row is not None
    place = (event.row[name] for name in ("topic", "partition", "offset", "record_ms"))
    late = _Late(*place, event.event_id, user_id, event.event_ms, watermark_ms, event.row["value"])
    return _OutputRow(KIND_LATE, None, late, None, None)


def _session_row(session: ClosedSession) -> Row:
    return _OutputRow(KIND_SESSION, _Session(*session.__dict__.values()), None, None, None)


def _counts(watermark_ms: int, **counts: int) -> Row:
    names = ("accepted", "dead", "late", "duplicates", "tick_records")
    return _OutputRow(
        KIND_COUNTS, None, None, None, _Counts(*(counts.get(name, 0) for name in names), watermark_ms)
    )


def _dead_letters(rows: Iterator[Row], watermark_ms: int) -> Iterator[Row]:
    dead = 0
    for row in rows:
        dead += 1
        letter = _Dead(
            row["topic"],
            row["partition"],
            row["offset"],
            row["record_ms"],
            row["record_key"],
            row["value"],
            row["reason"],
            row["detail"],
        )
        yield _OutputRow(KIND_DEAD, None, None, letter, None)
    yield _counts(watermark_ms, dead=dead)


def _read_state(stored: Any) -> UserState:
    if stored is None:
        return UserState()
    session, held, recent, floor_ms = stored
    return UserState(
        session=None if session is None else OpenSession(*session),
        held=tuple(SessionEvent(*event) for event in held),
        recent=tuple(Seen(*seen) for seen in recent),
        floor_ms=floor_ms,
    )


def _write_state(state: UserState) -> tuple[Any, ...]:
    return (
        None if state.session is None else _OpenSession(*state.session.__dict__.values()),
        [_Event(e.event_id, e.event_ms, e.event_type, e.is_last, e.timeout_ms) for e in state.held],
        [_Seen(seen.event_id, seen.event_ms) for seen in state.recent],
        state.floor_ms,
    )
