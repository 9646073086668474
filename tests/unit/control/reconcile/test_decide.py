"""Every decision the control plane can take, as a table; and what holds of all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stateward.contract.stream_control import Control, Desired, Failure, FailureKind, Hold, Override
from stateward.contract.stream_control import Launch as Launched
from stateward.contract.stream_status import Cause, DriverState, Status
from stateward.control.health.health import Limit
from stateward.control.health.thresholds import Thresholds
from stateward.control.launchers.driver_exit import Exit, Presence
from stateward.control.reconcile.decide import (
    Action,
    Done,
    Drain,
    GiveUp,
    Healthy,
    Held,
    Kill,
    Launch,
    Observed,
    Wait,
    decide,
)

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

LIMITS = Thresholds(
    max_status_age=timedelta(seconds=15),
    start_deadline=timedelta(seconds=120),
    stop_deadline=timedelta(seconds=45),
    max_commit_age=timedelta(seconds=600),
    backoff=timedelta(seconds=5),
    max_backoff=timedelta(seconds=60),
    max_attempts=3,
    window=timedelta(seconds=900),
    kill_grace=timedelta(seconds=10),
    measures={"lag": Limit(warn=1000), "batch_duration": Limit(warn=60, critical=300)},
)

ALIVE, GONE, ELSEWHERE = Presence.ALIVE, Presence.GONE, Presence.ELSEWHERE
LASTING, PASSING = Cause("state", lasting=True), Cause("lease", lasting=False)
HOLD = Hold("state_operations/manual", "repartition", NOW)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def control(**changes: Any) -> Control:
    launch = Launched(run_id="r1", at=ago(300), host="h", log="/l", pid=7, pid_started=1.0)
    plain = Control("s", "running", "r1", ago(300), "someone", "asked to run", launch=launch)
    return structs.replace(plain, **changes)


def status(state: DriverState = "running", **changes: Any) -> Status:
    plain = Status("s", "r1", state, started_at=ago(290), updated_at=ago(1), batch_id=4, message="why")
    return structs.replace(plain, **changes)


def asked_to_end() -> Control:
    return control(launch=structs.replace(launched(300), end_reason="it stalls"))


def elsewhere(desired: Desired = "running", updated_at: datetime = NOW, **changes: Any) -> Observed:
    """As a watcher sees a driver on a host whose clock may be wrong."""
    return Observed(control(desired=desired), status(updated_at=updated_at), ELSEWHERE, **changes)


def starting(seconds_ago: float, heard: float = 1) -> Status:
    return status("starting", phase="session", phase_at=ago(seconds_ago), updated_at=ago(heard))


def started(seconds_ago: float) -> Status:
    """As a driver of an earlier release, which reports no phases."""
    return status("starting", started_at=ago(seconds_ago))


def launched(seconds_ago: float) -> Launched:
    return Launched(run_id="r1", at=ago(seconds_ago), host="h", log="/l", pid=7, pid_started=1.0)


CASES = [
    # What is wanted and done.
    ("never deployed", Observed(None, None, GONE), Done),
    ("runs", Observed(control(), status(), ALIVE), Healthy),
    ("waits for Kafka", Observed(control(), status("waiting"), ALIVE, stalled_since=ago(601)), Healthy),
    ("stopped", Observed(control(desired="stopped"), status("stopped"), GONE), Done),
    ("stopped, though it was killed", Observed(control(desired="stopped"), status("draining"), GONE), Done),
    # First start and restart.
    ("first start", Observed(control(launch=None), None, GONE), Launch),
    ("restart: old one drains", Observed(control(run_id="r2", requested_at=ago(3)), status(), ALIVE), Drain),
    ("restart: old one is gone", Observed(control(run_id="r2"), status("stopped"), GONE), Launch),
    ("restart: old one is late", Observed(control(run_id="r2", requested_at=ago(50)), status(), ALIVE), Kill),
    # Stop.
    ("stop: drains", Observed(control(desired="stopped", requested_at=ago(45)), status(), ALIVE), Drain),
    ("stop: late", Observed(control(desired="stopped", requested_at=ago(46)), status(), ALIVE), Kill),
    ("stop: far away and late", Observed(control(desired="stopped"), status(), ELSEWHERE), Wait),
    # A state operation holds it.
    ("held: drains", Observed(control(run_id="r2", requested_at=ago(3), hold=HOLD), status(), ALIVE), Drain),
    ("held: late", Observed(control(run_id="r2", requested_at=ago(50), hold=HOLD), status(), ALIVE), Kill),
    ("held: is gone", Observed(control(run_id="r2", hold=HOLD), status("stopped"), GONE), Held),
    ("held: had failed before", Observed(control(hold=HOLD), status("failed"), GONE), Held),
    ("held, stopped by its YAML", Observed(control(hold=HOLD, declared="stopped"), None, GONE), Held),
    ("held: it is not desired to run", Observed(control(desired="stopped", hold=HOLD), None, GONE), Done),
    # Starting.
    ("starts", Observed(control(launch=launched(20)), None, ALIVE), Wait),
    ("starts and says so", Observed(control(launch=launched(20)), started(20), ALIVE), Wait),
    ("starts too long", Observed(control(launch=launched(121)), None, ALIVE), Kill),
    ("starts too long, saying so", Observed(control(launch=launched(121)), starting(121), ALIVE), Kill),
    # Its clock is ten minutes ahead.
    ("stands still", Observed(control(launch=launched(200)), starting(121 - 600, 1 - 600), ALIVE), Wait),
    ("stands still too long", Observed(control(launch=launched(200)), starting(-478, -599), ALIVE), Kill),
    ("starts slowly, and gets on", Observed(control(launch=launched(900)), starting(119), ALIVE), Wait),
    ("starts slowly, and stands still", Observed(control(launch=launched(900)), starting(121), ALIVE), Kill),
    ("was slow to its first word", Observed(control(launch=launched(150)), started(30), ALIVE), Wait),
    ("says no more than its first word", Observed(control(launch=launched(150)), started(121), ALIVE), Kill),
    ("a refused driver wrote", Observed(control(), status(run_id="r9", updated_at=ago(15)), ALIVE), Wait),
    ("only old words", Observed(control(), status(run_id="r0", updated_at=ago(999)), ALIVE), Kill),
    # Crashes.
    ("killed", Observed(control(), status(), GONE), Launch),
    ("died before a word", Observed(control(), None, GONE), Launch),
    ("failed", Observed(control(), status("failed"), GONE), Launch),
    ("refused", Observed(control(), status("refused"), GONE), Launch),
    ("refused for good", Observed(control(), status("refused", cause=LASTING), GONE), GiveUp),
    ("failed for good", Observed(control(), status("failed", cause=LASTING), GONE), GiveUp),
    ("failed for good, elsewhere", Observed(control(), status("failed", cause=LASTING), ELSEWHERE), GiveUp),
    ("failed for good, not yet gone", Observed(control(), status("failed", cause=LASTING), ALIVE), Wait),
    ("refused for a lease", Observed(control(), status("refused", cause=PASSING), GONE), Launch),
    ("killed after a cause had passed", Observed(control(), status(cause=LASTING), GONE), Launch),
    ("failed for good, again", Observed(control(run_id="r2"), status("failed", cause=LASTING), GONE), Launch),
    ("failed for good, held", Observed(control(hold=HOLD), status("failed", cause=LASTING), GONE), Held),
    (
        "an earlier run failed",
        Observed(control(), status("failed", run_id="r0", cause=LASTING), GONE),
        Launch,
    ),
    ("drained from outside", Observed(control(), status("stopped"), GONE), Launch),
    ("hangs", Observed(control(), status(updated_at=ago(16)), ALIVE), Kill),
    ("hangs while waiting", Observed(control(), status("waiting", updated_at=ago(16)), ALIVE), Kill),
    # No progress.
    ("stalls", Observed(control(), status(), ALIVE, stalled_since=ago(601)), Kill),
    ("is slow", Observed(control(), status(), ALIVE, stalled_since=ago(600)), Healthy),
    ("is leaving", Observed(control(), status("failed"), ALIVE, stalled_since=ago(45)), Wait),
    ("never leaves", Observed(control(), status("draining"), ALIVE, stalled_since=ago(46)), Kill),
    # On another host.
    ("elsewhere, runs", Observed(control(), status(updated_at=ago(15)), ELSEWHERE), Healthy),
    ("elsewhere, silent", Observed(control(), status(updated_at=ago(16)), ELSEWHERE), Launch),
    ("elsewhere, clock behind", elsewhere(updated_at=ago(600), silent_since=ago(15)), Healthy),
    ("elsewhere, clock ahead", elsewhere(updated_at=ago(-600), silent_since=ago(16)), Launch),
    ("to stop elsewhere, clock behind", elsewhere("stopped", ago(600), silent_since=ago(15)), Wait),
    ("to stop elsewhere, silent", elsewhere("stopped", ago(-600), silent_since=ago(16)), Done),
    ("elsewhere, ended", Observed(control(), status("failed"), ELSEWHERE), Launch),
    ("elsewhere, starts", Observed(control(launch=launched(120)), None, ELSEWHERE), Wait),
    ("elsewhere, never came", Observed(control(launch=launched(121)), None, ELSEWHERE), Launch),
    # Back-off.
    ("second crash, at once", Observed(control(restarts=(ago(4),)), status(), GONE), Wait),
    ("second crash, later", Observed(control(restarts=(ago(5),)), status(), GONE), Launch),
    ("third crash, doubled", Observed(control(restarts=(ago(60), ago(9))), status(), GONE), Wait),
    ("too many", Observed(control(restarts=(ago(900), ago(200), ago(100))), status(), GONE), GiveUp),
    (
        "one long ago",
        Observed(control(restarts=(ago(901), ago(200), ago(100))), status(), GONE),
        Launch,
    ),
]


@pytest.mark.parametrize(("seen", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decision(seen: Observed, expected: type[Action]) -> None:
    action = decide(LIMITS, seen, NOW)
    assert type(action) is expected, action
    assert action.reason


def test_a_late_driver_is_asked_first_and_killed_after_the_grace() -> None:
    def how(seconds: float) -> str:
        late = Observed(control(desired="stopped", requested_at=ago(seconds)), status(), ALIVE)
        action = decide(LIMITS, late, NOW)
        assert isinstance(action, Kill) and action.reason
        return action.how

    assert [how(46), how(55), how(56)] == ["terminate", "terminate", "kill"]


@pytest.mark.parametrize(
    ("seen", "counts"),
    [
        (Observed(control(launch=None), None, GONE), False),
        (Observed(control(run_id="r2"), status("stopped"), GONE), False),
        (Observed(control(), status("stopped"), GONE), False),
        (Observed(control(), status("stopped", started_at=ago(16)), GONE), True),
        (Observed(asked_to_end(), status("stopped"), GONE), True),
        (Observed(control(), status("failed"), GONE), True),
        (Observed(control(), status(), GONE), True),
    ],
    ids=["first", "asked for", "drained by down", "drains soon, always", "asked to end", "failed", "killed"],
)
def test_only_failures_count_as_restarts(seen: Observed, counts: bool) -> None:
    action = decide(LIMITS, seen, NOW)
    assert isinstance(action, Launch)
    assert action.after_failure is counts


def test_the_reason_says_who_wants_it() -> None:
    def reason(**changes: Any) -> str:
        return decide(LIMITS, Observed(control(**changes), None, GONE), NOW).reason

    wish = Override("stopped", "ann", "too dear", NOW)
    assert "someone" in reason(desired="stopped")
    assert "someone" not in reason(desired="stopped", declared="stopped")
    assert reason(desired="stopped", override=wish) == str(wish)
    assert str(wish) in reason(desired="suspended", override=wish)
    assert reason(launch=None, reason="new code") == "new code"


def test_giving_up_counts_the_starts_since_the_storage_was_away() -> None:
    seen = Observed(control(restarts=(ago(70), ago(60), ago(50))), status("failed"), GONE)
    assert decide(LIMITS, replace(seen, blind_until=ago(71)), NOW).reason == (
        "driver failed: why; restarted 3 times within 900 s without lasting success"
    )
    assert isinstance(decide(LIMITS, replace(seen, blind_until=ago(70)), NOW), Launch)


@pytest.mark.parametrize(
    ("kind", "next_step"),
    [
        ("state", "take one of the ways out that it names (docs/state-compatibility.md)"),
        ("topic", "create the topic, or correct its name in the stream's YAML"),
        ("of a newer release", "mend the cause"),
    ],
)
def test_what_no_restart_cures_is_given_up_with_its_cause_and_the_next_step(
    kind: str, next_step: str
) -> None:
    ended = status("refused", message="the state is incompatible.", cause=Cause(kind, lasting=True))
    action = decide(LIMITS, Observed(control(), ended, GONE), NOW)
    assert isinstance(action, GiveUp)
    assert action.failure == Failure("reported", "driver refused: the state is incompatible.")
    assert action.reason == (
        "driver refused: the state is incompatible. A restart does not cure that: "
        f"{next_step}, then trigger stream_s with the action run."
    )


def test_backoff_doubles_up_to_its_maximum() -> None:
    def wait(count: int) -> float:
        seen = Observed(control(restarts=(NOW,) * count), status(), GONE)
        action = decide(replace(LIMITS, max_attempts=99), seen, NOW)
        assert isinstance(action, Wait)
        assert action.until is not None
        return (action.until - NOW).total_seconds()

    assert [wait(count) for count in (1, 2, 3, 4, 5, 90)] == [5, 10, 20, 40, 60, 60]


def test_a_slow_driver_is_reported_and_left_alone_until_it_stands_still() -> None:
    slow = status(batch_duration_ms=400_000, lag_records=5000, lag_change_per_s=50.0)
    action = decide(LIMITS, Observed(control(), slow, ALIVE, stalled_since=ago(599)), NOW)
    assert isinstance(action, Healthy)
    assert [(one.level, one.measure) for one in action.warnings] == [
        ("critical", "batch_duration"),
        ("warn", "lag"),
    ]
    assert isinstance(decide(LIMITS, Observed(control(), slow, ALIVE, stalled_since=ago(601)), NOW), Kill)


def test_thresholds_survive_the_way_through_a_trigger() -> None:
    assert Thresholds.from_json(json.loads(json.dumps(LIMITS.to_json()))) == LIMITS


def test_a_trigger_of_an_earlier_release_is_read_without_limits_of_health() -> None:
    stored = {name: value for name, value in LIMITS.to_json().items() if name != "measures"}
    assert Thresholds.from_json({**stored, "max_lag": None}) == replace(LIMITS, measures={})


times = st.floats(0, 5000).map(ago)
statuses = st.one_of(
    st.none(),
    st.builds(
        status,
        st.sampled_from(["starting", "running", "waiting", "draining", "stopped", "refused", "failed"]),
        run_id=st.sampled_from(["r0", "r1", "r2"]),
        updated_at=times,
        started_at=times,
    ),
)
controls = st.builds(
    control,
    desired=st.sampled_from(["running", "stopped"]),
    run_id=st.sampled_from(["r1", "r2"]),
    requested_at=times,
    launch=st.one_of(st.none(), st.floats(0, 5000).map(launched)),
    restarts=st.lists(times, max_size=6).map(tuple),
)
looks = st.builds(
    Observed, controls, statuses, st.sampled_from(Presence), stalled_since=st.one_of(st.none(), times)
)


@given(looks)
def test_nothing_is_ever_launched_beside_a_live_process_or_against_a_stop(seen: Observed) -> None:
    action = decide(LIMITS, seen, NOW)
    assert action == decide(LIMITS, seen, NOW)
    assert seen.control is not None
    if isinstance(action, Launch):
        assert seen.driver is not ALIVE
        assert seen.control.desired == "running"
    if isinstance(action, Kill):
        assert seen.driver is not GONE
    if isinstance(action, Done):
        assert seen.control.desired == "stopped"
        assert seen.driver is not ALIVE


@given(looks)
def test_a_driver_that_runs_and_reports_is_never_killed_unless_it_stalls_or_is_to_leave(
    seen: Observed,
) -> None:
    assert seen.control is not None
    seen = replace(
        seen,
        control=structs.replace(seen.control, desired="running", run_id="r1", launch=launched(30)),
        status=status(),
        driver=ALIVE,
        stalled_since=None,
    )
    assert isinstance(decide(LIMITS, seen, NOW), Healthy)


def found(status: Status | None, exit: Exit | None, **changes: Any) -> str:
    """What is said of a driver that is gone."""
    return decide(LIMITS, Observed(control(**changes), status, GONE, exit=exit), NOW).reason


def test_a_driver_that_was_killed_says_what_died_and_by_which_signal() -> None:
    refused = status("failed", message="ConnectionRefusedError: [Errno 111] Connection refused")
    jvm = "crash: driver process gone: its JVM (process 7) was killed by SIGKILL"
    assert found(status(), Exit("SIGKILL")) == f"{jvm} (last reported running, batch 4)"
    assert found(refused, Exit("SIGKILL")).startswith(f"{jvm} (last reported failed: ConnectionRefusedError")
    silent = (
        "crash: driver process gone before it reported anything: its JVM (process 7) was killed by SIGBUS"
    )
    assert found(None, Exit("SIGBUS")) == silent
    python = "crash: driver process gone: its Python (process 8) was killed by SIGKILL"
    assert found(status(python_pid=8), Exit(code=137)).startswith(python)


def test_a_driver_that_ended_by_itself_has_its_own_words() -> None:
    assert found(status("failed"), Exit(code=1)) == "crash: driver failed: why"
    assert found(status(), Exit(code=1)) == "crash: driver process gone (last reported running, batch 4)"
    assert found(status(), None) == "crash: driver process gone (last reported running, batch 4)"


def test_a_driver_that_was_ended_here_is_told_by_the_reason() -> None:
    hung = "the driver hangs: its status (running) is 20 s old"
    ended = structs.replace(launched(300), end_reason=hung)
    seen = Observed(control(launch=ended), status(), GONE, exit=Exit("SIGKILL"))
    assert decide(LIMITS, seen, NOW) == Launch(f"crash: {hung}", Failure("ended", hung))


@pytest.mark.parametrize(
    ("status", "exit", "last_words", "kind", "signal"),
    [
        (status("failed"), Exit(code=1), "", "reported", None),
        (status("failed", message="killed by SIGKILL"), Exit(code=1), "", "reported", None),
        (status("failed"), Exit("SIGKILL"), "", "killed", "SIGKILL"),
        (status(), Exit("SIGSEGV"), "", "killed", "SIGSEGV"),
        (status(python_pid=8), Exit(code=137), "", "killed", "SIGKILL"),
        (status(), Exit(code=1), "", "gone", None),
        (status(), None, "", "gone", None),
        (None, None, "", "gone", None),
        (None, Exit(code=1), "Unrecognized VM option 'X'", "not_started", None),
        (None, Exit("SIGBUS"), "an error", "killed", "SIGBUS"),
    ],
)
def test_a_failure_has_a_kind_and_the_signal(
    status: Status | None, exit: Exit | None, last_words: str, kind: FailureKind, signal: str | None
) -> None:
    seen = Observed(control(), status, GONE, last_words=last_words, exit=exit)
    action = decide(LIMITS, seen, NOW)
    assert isinstance(action, Launch) and action.failure is not None
    assert (action.failure.kind, action.failure.signal) == (kind, signal)
    assert action.reason == f"crash: {action.failure.cause}"
    for restarts, expected in (((ago(1),), Wait), ((ago(3), ago(2), ago(1)), GiveUp)):
        later = decide(LIMITS, replace(seen, control=control(restarts=restarts)), NOW)
        assert isinstance(later, expected) and later.failure == action.failure
