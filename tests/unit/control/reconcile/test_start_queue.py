"""Starts of one host wait for each other: real processes, a stand-in for the driver that starts slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stateward.alerts.incident import IncidentState, Observation, next_incidents
from stateward.contract.stream_control import Failure
from stateward.control.launchers import processes
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile import start_queue
from stateward.control.reconcile.decide import Action, Healthy, Launch, Observed, Queued, Wait
from stateward.control.reconcile.executor import Controller
from stateward.control.reconcile.observe import observe
from stateward.control.reconcile.startup_probe import Watch, comeback
from stateward.pages.streams.condition import condition
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from tests.support.control.process_harness import StandInLauncher, control_of, driver_of, quick, reach
from tests.support.control.requests import wish
from tests.support.waiting import PATIENCE_S, wait_until

NAMES = ("device_lifecycle", "fraud_watch", "user_sessions")
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
DEADLINE = timedelta(seconds=120)
Make = Callable[[str], Controller]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "home").mkdir()
    return Settings(home=tmp_path / "home", starts_at_once=1)


@pytest.fixture
def make(settings: Settings) -> Iterator[Make]:
    def build(stream: str) -> Controller:
        spec = quick(load_spec(stream))
        controller = Controller(spec, settings, StandInLauncher(spec, settings))
        controller.request(wish("run"))
        return controller

    yield build
    for name in NAMES:
        processes.kill(processes.find_by_env(settings.home, name), timeout_s=10)


@pytest.fixture
def slow(settings: Settings) -> Path:
    """Drivers go on starting as long as this file is there."""
    file = settings.home / "slow"
    file.touch()
    return file


def test_one_starts_after_the_other(make: Make, slow: Path) -> None:
    first, second, third = (make(name) for name in NAMES)
    assert isinstance(first.reconcile(), Launch)
    assert type(first.reconcile()) is Wait
    found = second.reconcile()
    assert isinstance(found, Queued)
    assert "asked to run" in found.reason and "device_lifecycle" in found.reason
    assert "STATEWARD_STARTS_AT_ONCE" in found.reason
    assert control_of(second).launch is None

    slow.unlink()
    reach(first, Healthy)
    slow.touch()
    assert isinstance(second.reconcile(), Launch)
    assert isinstance(third.reconcile(), Queued)
    driver_of(second).kill()
    wait_until(
        lambda: not isinstance(third.reconcile(), Queued), PATIENCE_S, "a start that died holds no other up"
    )


def test_of_all_at_the_same_moment_only_one_starts(make: Make, slow: Path) -> None:
    controllers = [make(name) for name in NAMES]
    with ThreadPoolExecutor(len(NAMES)) as pool:
        found = list(pool.map(lambda controller: controller.reconcile(), controllers))
    assert sorted(type(action).__name__ for action in found) == ["Launch", "Queued", "Queued"]


def test_one_that_does_not_get_on_holds_nobody_up(make: Make, slow: Path) -> None:
    first, second = make(NAMES[0]), make(NAMES[1])
    assert isinstance(first.reconcile(), Launch)
    assert isinstance(second.reconcile(), Queued)
    wait_until(lambda: observe(first.layout, NAMES[0]).own_status, PATIENCE_S, "it reports that it starts")
    now = datetime.now(UTC)
    assert start_queue.starting(first.layout, NAMES[1], now, DEADLINE) == [NAMES[0]]
    assert start_queue.starting(first.layout, NAMES[0], now, DEADLINE) == [], "not itself"
    assert start_queue.starting(first.layout, NAMES[1], now + timedelta(seconds=130), DEADLINE) == []


BOOM = Failure("reported", "driver failed: boom")


@pytest.mark.parametrize("action", [Wait("nothing"), Launch("asked to run"), Launch("x", BOOM)])
@pytest.mark.parametrize("others", [[], ["a"], ["a", "b"]])
def test_a_turn_comes_when_fewer_start_than_may(action: Action, others: list[str]) -> None:
    found = start_queue.in_turn(action, others, slots=2)
    waits = isinstance(action, Launch) and len(others) == 2
    assert isinstance(found, Queued) == waits
    assert found is action or (isinstance(found, Queued) and found.launch is action)


def test_a_failure_is_told_at_once_though_the_next_start_waits(make: Make) -> None:
    control = control_of(make(NAMES[0]))
    crash = Launch(BOOM.reason_of_launch, BOOM)
    queued = start_queue.in_turn(crash, ["a"], slots=1)
    seen = Observed(control, None, Presence.GONE)
    _, [message] = next_incidents(
        IncidentState((), 0), Observation(NAMES[0], queued, seen, NOW), timedelta(minutes=5)
    )
    assert (message.kind, message.incident.words.cause) == ("opened", "Driver failed: boom.")
    assert condition(seen, queued).state == "failed"
    assert condition(seen, start_queue.in_turn(Launch("asked to run"), ["a"], slots=1)).state == "starting"


def test_an_operation_does_not_count_the_time_in_the_queue(make: Make) -> None:
    seen = Observed(control_of(make(NAMES[0])), None, Presence.GONE)
    queued = start_queue.in_turn(Launch("asked to run"), ["a"], slots=1)
    watch = Watch(since=NOW - timedelta(hours=1), until=NOW - timedelta(minutes=50))
    assert comeback(seen, queued, watch, NOW).outcome == "open"
