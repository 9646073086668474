"""A state operation holds a stream: what that does to the desired state, and when the stream is back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Desired, Failure
from stateward.contract.stream_control import Launch as Launched
from stateward.contract.stream_status import Status
from stateward.control.launchers.driver_exit import Presence
from stateward.control.launchers.driver_process import DriverCommand
from stateward.control.launchers.launch import SparkLauncher
from stateward.control.reconcile.decide import (
    Action,
    Done,
    GiveUp,
    Healthy,
    Held,
    Kill,
    Launch,
    Observed,
    Suspended,
    Wait,
)
from stateward.control.reconcile.desired_state import WishAction
from stateward.control.reconcile.executor import Controller
from stateward.control.reconcile.maintenance_hold import held_by, hold, release_hold
from stateward.control.reconcile.observe import read_control
from stateward.control.reconcile.startup_probe import Watch, comeback
from stateward.platform.report import stream_reports
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from tests.support.control.requests import wish

NOW = datetime(2026, 11, 22, 2, 45, tzinfo=UTC)
STREAM = "user_sessions"
US, OTHERS = "state_operations/manual__1", "state_operations/manual__2"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.fixture
def layout(settings: Settings) -> Layout:
    return Layout.of(settings)


def deployed(layout: Layout, desired: Desired = "running") -> Control:
    launch = Launched("r1", NOW, "h", "/l", 7, 1.0)
    control = Control(STREAM, desired, "r1", NOW, "me", "why", launch, restarts=(NOW,))
    write_json(layout.control_uri(STREAM), as_json(control))
    return control


def found(layout: Layout) -> Control:
    control = read_control(layout, STREAM)
    assert control is not None
    return control


def test_a_held_stream_drains_and_is_wanted_as_before(layout: Layout) -> None:
    deployed(layout)
    assert hold(layout, STREAM, US, "repartition", NOW + timedelta(minutes=1)) is None
    held = found(layout)
    assert (held.desired, held.launch_pending, held.restarts) == ("running", True, ())
    assert held.requested_at == NOW + timedelta(minutes=1), "the driver's deadline counts from here"
    # A task that is run again finds its own hold as it was.
    assert hold(layout, STREAM, US, "repartition", NOW + timedelta(minutes=9)) is None
    assert found(layout) == held
    assert release_hold(layout, STREAM, US)
    assert found(layout) == replace(held, hold=None)
    assert not release_hold(layout, STREAM, US)


def test_a_stopped_stream_stays_stopped(layout: Layout) -> None:
    stopped = deployed(layout, "stopped")
    hold(layout, STREAM, US, "savepoint", NOW)
    assert release_hold(layout, STREAM, US)
    assert found(layout) == stopped


def test_one_operation_at_a_time_and_nothing_to_hold_before_the_first_deployment(layout: Layout) -> None:
    assert hold(layout, STREAM, US, "savepoint", NOW) is None
    assert held_by(layout, STREAM) is None
    deployed(layout)
    hold(layout, STREAM, US, "savepoint", NOW)
    other = hold(layout, STREAM, OTHERS, "restore", NOW)
    assert other is not None
    assert str(other) == f"held by {US} (savepoint) since 2026-11-22 02:45:00 UTC"
    assert not release_hold(layout, STREAM, OTHERS)


@pytest.mark.parametrize(
    ("action", "desired", "is_held"),
    [
        ("run", "running", True),
        ("stop", "stopped", True),
        ("suspend", "suspended", True),
        ("restart", "running", False),
    ],
)
def test_a_person_may_change_their_mind_meanwhile(
    layout: Layout, settings: Settings, action: WishAction, desired: str, is_held: bool
) -> None:
    deployed(layout)
    hold(layout, STREAM, US, "savepoint", NOW)
    spec = load_spec(STREAM)
    launcher = SparkLauncher(spec, settings, lambda *_: DriverCommand([], {}))
    Controller(spec, settings, launcher).request(wish(action, "someone", "we wait"))
    control = found(layout)
    assert (control.desired, control.hold is not None) == (desired, is_held)


def test_the_status_says_who_holds_it(layout: Layout, settings: Settings) -> None:
    deployed(layout)
    hold(layout, STREAM, US, "savepoint", NOW)
    [report] = [one for one in stream_reports(settings, NOW) if one.stream == STREAM]
    assert report.held_by == US
    assert report.message.startswith(f"held by {US} (savepoint) since ")
    assert f"trigger stream_{STREAM} with the action restart" in report.message


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def status(**changes: object) -> Status:
    plain = Status(STREAM, "r1", "running", started_at=after(5), updated_at=after(9), batch_id=4)
    return replace(plain, **changes)


RUNS, WAITS = Healthy("running, batch 4"), Wait("the driver is starting")
CASES = [
    ("a batch since", status(last_batch_at=after(7)), RUNS, 10, "back"),
    ("the last batch is an old one", status(last_batch_at=after(-7)), RUNS, 10, "open"),
    ("the driver from before", status(state="stopped", last_batch_at=after(1)), WAITS, 10, "open"),
    ("starts", None, WAITS, 10, "open"),
    ("crashed, and is started again", status(state="failed"), Launch("crash"), 10, "open"),
    ("nothing to read, yet", status(caught_up=True), RUNS, 10, "open"),
    ("nothing to read", status(caught_up=True), RUNS, 61, "quiet"),
    ("records wait", status(caught_up=False), RUNS, 61, "failed"),
    ("waits for Kafka", status(state="waiting"), RUNS, 61, "failed"),
    ("takes its time to start", None, WAITS, 61, "open"),
    ("its start is ended", None, Kill("the driver's start has not got on"), 61, "failed"),
    ("took its time to start", status(phase_at=after(50), caught_up=False), RUNS, 61, "open"),
    ("does not commit after that", status(phase_at=after(50), caught_up=False), RUNS, 111, "failed"),
    ("given up", status(state="failed"), GiveUp("driver failed"), 10, "failed"),
    ("stopped by a person", status(state="stopped"), Done("stopped, as me has asked"), 10, "left"),
    ("held by another", status(state="stopped"), Held("held by another"), 10, "left"),
]


@pytest.mark.parametrize(
    ("seen", "action", "at", "outcome"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_when_a_stream_is_back(seen: Status | None, action: Action, at: float, outcome: str) -> None:
    control = Control(STREAM, "running", "r1", NOW, "me", "why", Launched("r1", NOW, "h", "/l", 7, 1.0))
    observed = Observed(control, seen, Presence.ALIVE)
    told = comeback(observed, action, Watch(NOW, after(60)), after(at))
    assert told.outcome == outcome
    assert told.reason


AGAIN = (after(20),)
WHOLE = [
    ("a batch since", status(last_batch_at=after(7)), RUNS, (), 10, "open"),
    ("did well to the end", status(last_batch_at=after(7)), RUNS, (), 60, "back"),
    ("nothing to read to the end", status(caught_up=True), RUNS, (), 60, "quiet"),
    ("takes its time to start", status(state="starting"), WAITS, (), 170, "open"),
    ("starts again after a crash", status(state="starting"), WAITS, AGAIN, 40, "failed"),
    ("takes its time to commit", status(caught_up=False), RUNS, (), 70, "open"),
    ("never committed", status(caught_up=False), RUNS, (), 90, "failed"),
    (
        "has crashed",
        status(state="failed"),
        Launch("crash: why", Failure("reported", "why")),
        (),
        10,
        "failed",
    ),
    ("hangs", status(last_batch_at=after(7)), Kill("it hangs"), (), 30, "failed"),
    ("runs again after a crash", status(last_batch_at=after(30)), RUNS, AGAIN, 40, "failed"),
    ("had crashed before", status(last_batch_at=after(7)), RUNS, (after(-5),), 60, "back"),
    ("given up", status(state="failed"), GiveUp("driver failed"), AGAIN, 30, "failed"),
    ("stopped by a person", status(state="stopped"), Done("stopped, as me has asked"), (), 10, "left"),
    ("suspended by a person", status(state="stopped"), Suspended("suspended by me"), (), 10, "left"),
]


@pytest.mark.parametrize(
    ("seen", "action", "restarts", "at", "outcome"),
    [case[1:] for case in WHOLE],
    ids=[case[0] for case in WHOLE],
)
def test_when_what_was_upgraded_has_done_well(
    seen: Status, action: Action, restarts: tuple[datetime, ...], at: float, outcome: str
) -> None:
    launched = Launched("r1", NOW, "h", "/l", 7, 1.0)
    control = Control(STREAM, "running", "r1", NOW, "me", "why", launched, restarts=restarts)
    observed = Observed(control, seen, Presence.ALIVE)
    told = comeback(observed, action, Watch(NOW, after(60), whole=True, latest=after(90)), after(at))
    assert told.outcome == outcome
    assert told.reason
