"""What a watcher knows of a driver whose documents and clock cannot tell."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from stateward.contract.stream_control import Application, Control
from stateward.contract.stream_control import Launch as Launched
from stateward.contract.stream_status import Status
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile.decide import Action, Healthy, Kill, Launch, Observed, decide
from stateward.control.reconcile.observe import thresholds_of
from stateward.control.reconcile.watch_clock import WatchClock
from stateward.project.spec import load_spec

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
AT = [NOW + timedelta(seconds=second) for second in range(6)]


def seen(**changes: Any) -> Observed:
    launch = Launched("r1", NOW, "h", "/l")
    plain = Status("s", "r1", "running", NOW, NOW, batch_id=4, caught_up=False)
    status = structs.replace(plain, **changes)
    return Observed(Control("s", "running", "r1", NOW, launch=launch), status, Presence.ELSEWHERE)


def test_a_stall_starts_with_the_first_look_and_with_every_batch() -> None:
    clock = WatchClock()

    def since(at: datetime, **changes: Any) -> datetime | None:
        return clock.see(seen(**changes), at).stalled_since

    assert since(AT[0]) == AT[0]
    assert since(AT[1]) == AT[0]
    assert since(AT[2], batch_id=5) == AT[2]
    assert since(AT[3], caught_up=True) is None
    assert since(AT[4]) == AT[4]
    assert clock.see(replace(seen(), status=None), AT[5]).stalled_since is None


def test_silence_is_counted_from_when_the_status_was_first_seen_whatever_time_it_has() -> None:
    clock, an_hour = WatchClock(), timedelta(hours=1)

    def since(at: datetime, updated_at: datetime) -> datetime | None:
        return clock.see(seen(updated_at=updated_at), at).silent_since

    assert since(AT[0], NOW - an_hour) == AT[0]
    assert since(AT[1], NOW - an_hour) == AT[0]
    # A clock that is set back makes the status no older.
    assert since(AT[2], NOW - 2 * an_hour) == AT[2]
    assert since(AT[3], NOW + an_hour) == AT[3]
    assert clock.see(replace(seen(), status=None), AT[4]).silent_since is None


@pytest.mark.parametrize("where", [Presence.ALIVE, Presence.ELSEWHERE])
def test_a_driver_is_not_silent_while_its_watcher_cannot_read_or_waits_long(where: Presence) -> None:
    clock, limits = WatchClock(), thresholds_of(load_spec("user_sessions"))

    def after(seconds: int, reading_s: float = 0.0) -> Action:
        now = NOW + timedelta(seconds=seconds)
        found = replace(seen(caught_up=True), driver=where, reading=timedelta(seconds=reading_s))
        return decide(limits, clock.see(found, now), now)

    assert isinstance(after(0), Healthy)
    clock.fail(NOW + timedelta(seconds=40))
    assert isinstance(after(50, reading_s=6), Healthy)
    clock = WatchClock.resumed(clock.to_json())
    assert isinstance(after(71), Healthy)
    assert isinstance(after(72), Kill if where is Presence.ALIVE else Launch)


@pytest.mark.parametrize(("silent_s", "expected"), [(15, Healthy), (16, Kill)])
@pytest.mark.parametrize("clock_s", [-600, 600])
def test_the_clock_of_a_driver_in_a_cluster_is_not_compared(
    clock_s: int, silent_s: int, expected: type[Action]
) -> None:
    application = Application("yarn", "http://rm:8088", "application_1_0001")
    launch = Launched("r1", NOW, "h", "/l", application=application)
    plain = seen(updated_at=NOW + timedelta(seconds=clock_s), caught_up=True)
    found = replace(
        plain,
        driver=Presence.ALIVE,
        control=Control("s", "running", "r1", NOW, launch=launch),
        silent_since=NOW - timedelta(seconds=silent_s),
    )
    assert isinstance(decide(thresholds_of(load_spec("user_sessions")), found, NOW), expected)


def test_the_next_watcher_goes_on_where_the_last_one_was() -> None:
    first = WatchClock()
    first.see(seen(), AT[0])
    found = WatchClock.resumed(first.to_json()).see(seen(), AT[3])
    assert (found.stalled_since, found.silent_since) == (AT[0], AT[0])
    # A driver that has reported meanwhile is not silent.
    found = WatchClock.resumed(first.to_json()).see(seen(updated_at=AT[1]), AT[3])
    assert (found.stalled_since, found.silent_since) == (AT[0], AT[3])
    for unknown in (None, {}, {"status": "of another release"}):
        assert WatchClock.resumed(unknown).see(seen(), AT[3]).silent_since == AT[3]
