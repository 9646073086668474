"""What a stream's desired state becomes: its YAML declares it, a person overrides it, a hold leaves it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stateward.contract.reading import as_json
from stateward.contract.stream_control import Control, Desired, Hold, Override, control_from
from stateward.control.reconcile.desired_state import Wish, WishAction, WishError, declare, first, wanted

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
HOLD = Hold("state_operations/manual", "repartition", NOW)


def control(desired: Desired, declared: Desired, override: Desired | None = None) -> Control:
    mark = Override(override, "ann", "why", NOW) if override else None
    return Control("s", desired, "r1", NOW, "dag/1", "asked", declared=declared, override=mark)


def wish(action: WishAction, reason: str = "why", by: str = "dag/2") -> Wish:
    return Wish(action, by, "bob", reason, NOW + timedelta(seconds=5))


# Before: desired, declared by the YAML, overridden to. After: desired, overridden to; None: unchanged.
TABLE: list[
    tuple[WishAction, tuple[Desired, Desired, Desired | None], tuple[Desired, Desired | None] | None]
] = [
    ("run", ("stopped", "running", "stopped"), ("running", None)),
    ("run", ("running", "running", None), None),
    ("run", ("suspended", "running", "suspended"), None),
    ("run", ("suspended", "suspended", None), None),
    ("run", ("stopped", "stopped", None), None),
    ("run", ("running", "stopped", "running"), None),
    ("stop", ("running", "running", None), ("stopped", "stopped")),
    ("stop", ("suspended", "running", "suspended"), ("stopped", "stopped")),
    ("stop", ("running", "stopped", "running"), ("stopped", None)),
    ("stop", ("stopped", "running", "stopped"), None),
    ("suspend", ("running", "running", None), ("suspended", "suspended")),
    ("suspend", ("stopped", "running", "stopped"), ("suspended", "suspended")),
    ("suspend", ("running", "suspended", "running"), ("suspended", None)),
    ("suspend", ("suspended", "suspended", None), None),
    ("resume", ("suspended", "running", "suspended"), ("running", None)),
    ("resume", ("suspended", "suspended", None), ("running", "running")),
    ("resume", ("stopped", "stopped", None), ("running", "running")),
    ("resume", ("stopped", "running", "stopped"), ("running", None)),
    ("resume", ("running", "running", None), None),
    ("restart", ("running", "running", None), ("running", None)),
    ("restart", ("running", "suspended", "running"), ("running", "running")),
    ("restart", ("stopped", "running", "stopped"), ("running", None)),
    ("restart", ("suspended", "running", "suspended"), None),
    ("restart", ("stopped", "stopped", None), None),
]


@pytest.mark.parametrize(("action", "before", "after"), TABLE)
def test_what_a_wish_leads_to(
    action: WishAction,
    before: tuple[Desired, Desired, Desired | None],
    after: tuple[Desired, Desired | None] | None,
) -> None:
    known = control(*before)
    found = wanted(known, wish(action), "r2")
    if after is None:
        assert found is None
        return
    assert found is not None
    assert (found.desired, found.override and found.override.desired) == after
    assert found.declared == before[1]
    # Only what is to run gets a new launch; a driver that drains keeps its name.
    assert (found.run_id == "r2") == (found.desired == "running")


def test_a_reason_and_an_author_are_kept() -> None:
    found = wanted(control("running", "running"), wish("suspend", "payments are migrated"), "r2")
    assert found is not None
    assert str(found.override) == "suspended by bob since 2026-01-31 12:00:05 UTC: payments are migrated"
    assert found.reason == "asked to suspend: payments are migrated"


@pytest.mark.parametrize(
    ("action", "desired", "declared"),
    [
        ("suspend", "running", "running"),
        ("resume", "suspended", "suspended"),
        ("resume", "stopped", "stopped"),
    ],
)
def test_without_a_reason_nothing_is_overridden(
    action: WishAction, desired: Desired, declared: Desired
) -> None:
    with pytest.raises(WishError, match=f"stream s: expected a reason to {action} it, .* field `reason`"):
        wanted(control(desired, declared), wish(action, ""), "r2")


def test_what_the_yaml_now_declares_ends_an_override() -> None:
    suspended = control("suspended", "running", "suspended")
    assert declare(suspended, "running", "r2", NOW) is None
    found = declare(suspended, "stopped", "r2", NOW)
    assert found is not None
    assert (found.desired, found.override, found.requested_by) == ("stopped", None, "its YAML")
    started = declare(found, "running", "r3", NOW)
    assert started is not None
    assert (started.desired, started.run_id, started.launch_pending) == ("running", "r3", True)
    # What a person wants already is not asked for again: the driver stays.
    resumed = declare(control("running", "suspended", "running"), "running", "r2", NOW)
    assert resumed is not None
    assert (resumed.desired, resumed.override, resumed.run_id) == ("running", None, "r1")


@pytest.mark.parametrize("declared", get_args(Desired))
def test_a_first_run_does_what_the_yaml_declares(declared: Desired) -> None:
    new = first("s", declared, wish("run"), "r1")
    found = wanted(new, wish("run"), "r1") or new
    assert (found.desired, found.override) == (declared, None)


def test_a_restart_ends_a_hold_and_starts_nothing_that_is_suspended() -> None:
    held = replace(control("suspended", "running", "suspended"), hold=HOLD)
    found = wanted(held, wish("restart"), "r2")
    assert found == replace(held, hold=None)


def test_one_dag_run_restarts_once() -> None:
    once = wanted(control("running", "running"), wish("restart"), "r2")
    assert once is not None
    assert wanted(once, wish("restart"), "r3") is None
    assert wanted(once, wish("restart", by="dag/3"), "r3") is not None


wishes = st.builds(
    Wish,
    st.sampled_from(get_args(WishAction)),
    st.sampled_from(["dag/1", "dag/2"]),
    st.just("ann"),
    st.just("why"),
    st.just(NOW),
)


@given(
    st.sampled_from(get_args(Desired)),
    st.lists(st.one_of(wishes, st.sampled_from(get_args(Desired))), max_size=12),
)
def test_however_hands_follow_each_other_the_document_says_whose_is_the_last(
    declared: Desired, steps: list[Wish | Desired]
) -> None:
    now: Control = first("s", declared, wish("run"), "r0")
    for number, step in enumerate(steps):
        before, run_id = now, f"r{number + 1}"
        if isinstance(step, Wish):
            now = wanted(now, step, run_id) or now
            if before.desired == "suspended" and step.action not in ("resume", "stop"):
                assert now.desired == "suspended"
            assert {"stop": "stopped", "suspend": "suspended", "resume": "running"}.get(
                step.action, now.desired
            ) == now.desired
        else:
            now = declare(now, step, run_id, NOW) or now
            assert now.declared == step
        if now.override:
            assert now.override.desired == now.desired != now.declared
        assert control_from(json.loads(json.dumps(as_json(now)))) == now
