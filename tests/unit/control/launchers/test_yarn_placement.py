"""A driver that waits in a queue of YARN for its container is no start that does not get on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from stateward.contract.stream_control import Control, Desired, Launch
from stateward.control.launchers.driver_exit import Presence
from stateward.control.launchers.yarn_driver import placement_of
from stateward.control.reconcile.decide import Kill, Observed, Wait, decide
from stateward.control.reconcile.observe import thresholds_of
from stateward.control.reconcile.startup_probe import Watch, comeback
from stateward.pages.streams.condition import condition
from stateward.project.spec import load_spec

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
QUEUED: dict[str, Any] = {
    "id": "application_1_0003",
    "state": "ACCEPTED",
    "queue": "root.default",
    "startedTime": 1795693254343,
    "launchTime": 0,
    "elapsedTime": 3_600_000,
    "diagnostics": "[Thu Nov 26 11:42:07 +0000 2026] Application is Activated, waiting for resources to be"
    " assigned for AM.  Details : AM Partition = <DEFAULT_PARTITION> ; Partition Resource = <memory:1>",
    "resourceRequests": [{"capability": {"memory": 2304, "vCores": 1}, "numContainers": 1}],
}
NODES = [
    {"availMemoryMB": 512, "usedMemoryMB": 5632, "availableVirtualCores": 3, "usedVirtualCores": 1},
    {"availMemoryMB": 0, "usedMemoryMB": 6144, "availableVirtualCores": 3, "usedVirtualCores": 1},
]
CONTAINER = {
    "amContainerLogs": "http://node2:8042/node/containerlogs/container_1_0003_01_000001/root",
    "launchTime": QUEUED["startedTime"] + 3_600_000,
}
LIMITS = thresholds_of(load_spec("user_sessions"))
LAUNCHED = NOW - HOUR - LIMITS.start_deadline


def seen(desired: Desired = "running", **changes: Any) -> Observed:
    launch = Launch(run_id="r1", at=LAUNCHED, host="h", log="/l")
    control = Control("user_sessions", desired, "r1", LAUNCHED, "someone", "asked to run", launch=launch)
    return Observed(control, None, Presence.ALIVE, placement=placement_of({**QUEUED, **changes}, NODES))


def test_it_waits_and_says_for_what_and_what_the_cluster_has_free() -> None:
    look = seen()
    action = decide(LIMITS, look, NOW)
    assert isinstance(action, Wait), "however long it takes"
    assert action.reason == (
        "the driver waits for a container of 2304 MiB and 1 core in the queue root.default: the cluster has"
        " 512 of 12288 MiB and 6 of 8 cores free on 2 nodes. YARN: [Thu Nov 26 11:42:07 +0000 2026]"
        " Application is Activated, waiting for resources to be assigned for AM."
    )
    assert condition(look, action).state == "waiting"
    watch = Watch(LAUNCHED, NOW - HOUR, whole=True)
    assert comeback(look, action, watch, NOW).outcome == "open", "an upgrade is not undone for it"


def test_one_that_waits_and_is_to_stop_has_nothing_to_drain() -> None:
    action = decide(LIMITS, seen("stopped"), LAUNCHED)
    assert isinstance(action, Kill) and action.how == "kill"


def test_the_deadline_of_its_start_begins_with_its_container() -> None:
    look, second = seen(**CONTAINER), timedelta(seconds=1)
    assert isinstance(decide(LIMITS, look, NOW), Wait)
    assert isinstance(decide(LIMITS, look, NOW + second), Kill)
    assert condition(look, decide(LIMITS, look, NOW)).state == "starting"


def test_a_release_of_hadoop_that_does_not_say_when_counts_as_at_once() -> None:
    assert placement_of({**QUEUED, **CONTAINER, "launchTime": None}, NODES).took == timedelta()
