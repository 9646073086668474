"""The timers of a stream that its driver knows."""

from __future__ import annotations

from stateward.runtime.watermark.due_times import BucketTimers, UnknownTimers


def test_a_new_checkpoint_has_no_timers() -> None:
    alarms = BucketTimers(4, new=True)
    assert alarms.due.known
    assert not alarms.due.is_due(1 << 60)


def test_a_timer_is_due_at_its_time_and_until_it_is_replaced() -> None:
    alarms = BucketTimers(4, new=True)
    alarms.note({1: 100, 2: None})
    assert [alarms.due.is_due(watermark) for watermark in (99, 100, 101)] == [False, True, True]
    alarms.note({1: 200})
    assert not alarms.due.is_due(100)
    alarms.note({1: None})
    assert not alarms.due.is_due(1 << 60)


def test_a_timer_before_a_watermark_that_is_on_its_way_is_not_due() -> None:
    alarms = BucketTimers(4, new=True)
    alarms.note({1: 100, 2: 200})
    assert [alarms.due.is_due(150, beyond) for beyond in (99, 100, 101)] == [True, True, False]
    assert alarms.due.is_due(200, 101)


def test_after_a_restart_a_bucket_is_unknown_until_it_was_looked_at() -> None:
    alarms = BucketTimers(2, new=False)
    alarms.note({0: None})
    assert not alarms.due.known
    alarms.note({1: 5})
    assert alarms.due.known
    assert alarms.due.is_due(5)


def test_an_empty_state_leaves_nothing_unknown_and_forgets_no_timer() -> None:
    alarms = BucketTimers(2, new=False)
    alarms.note({0: 7})
    alarms.note_state(3)
    assert not alarms.due.known
    alarms.note_state(0)
    assert alarms.due.known
    assert alarms.due.is_due(7)


def test_what_native_operators_hold_may_be_due_at_any_time() -> None:
    alarms = UnknownTimers()
    assert not alarms.due.known
    alarms.note_state(0)
    assert alarms.due.known
    alarms.note({})
    alarms.note_state(2)
    assert not alarms.due.known
    assert not alarms.due.is_due(1 << 60)
