"""Every pair of what is desired and what is: the table of docs/supervision.md is what `decide` does."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from msgspec import convert
from msgspec.structs import replace

from stateward.contract.stream_control import Control, Desired, Hold, Launch
from stateward.contract.stream_status import DriverState, Status
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile.decide import Observed, decide
from stateward.project.settings import CHECKOUT
from tests.unit.control.reconcile.test_decide import LIMITS, NOW, ago

# A driver that was launched twenty seconds ago, everything within its deadline: what is late, silent, stalled
# or failing again and again is in test_decide.py.
PAGE = CHECKOUT / "docs" / "supervision.md"


def rows() -> list[tuple[str, str, str]]:
    """The cells of the page's table: what is, what is desired, the action."""
    text = PAGE.read_text(encoding="utf-8").partition("| is | ")[2]
    lines = ("is | " + text).partition("\n\n")[0].splitlines()
    head, *body = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line
    )
    return [
        (actual, wish, action)
        for actual, *cells in body
        for wish, action in zip(head[1:], cells, strict=True)
    ]


def control(wish: str) -> Control:
    launch = Launch(run_id="r1", at=ago(20), host="h", log="/l", pid=7, pid_started=1.0)
    running = Control("s", "running", "r1", ago(20), "someone", "asked to run", launch=launch)
    asked = ago(3)
    return {
        "running": running,
        "restart": replace(running, run_id="r2", requested_at=asked),
        # See stateward/control/reconcile/maintenance_hold.py: a driver drains for another run.
        "held": replace(running, run_id="r2", requested_at=asked, hold=Hold("ops/1", "savepoint", asked)),
        "suspended": replace(running, desired="suspended", requested_at=asked),
        "stopped": replace(running, desired="stopped", requested_at=asked),
    }[wish]


def observed(actual: str, wish: str) -> Observed:
    if actual == "never deployed":
        return Observed(None, None, Presence.GONE)
    presence, _, state = actual.partition(", ")
    status = None
    if state != "silent":
        known = convert(state, DriverState)
        status = Status("s", "r1", known, started_at=ago(18), updated_at=ago(1), batch_id=4)
    return Observed(control(wish), status, Presence(presence))


@pytest.mark.parametrize(("actual", "wish", "action"), rows())
def test_pair(actual: str, wish: str, action: str) -> None:
    decided = decide(LIMITS, observed(actual, wish), NOW)
    assert type(decided).__name__ == action, decided
    assert decided.reason


def test_no_pair_is_missing() -> None:
    states = ["silent", *get_args(DriverState)]
    places = [f"{presence.value}, {state}" for presence, state in product(Presence, states)]
    wishes = ["restart", "held", *get_args(Desired)]
    assert sorted((actual, wish) for actual, wish, _ in rows()) == sorted(
        product(["never deployed", *places], wishes)
    )
