"""What a pod, as the API server has it, says of the driver in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stateward.control.launchers.driver_exit import Presence
from stateward.control.launchers.kubernetes_driver import condition_of, exit_of, presence_of

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
DRIVER = "spark-kubernetes-driver"


def pod(
    phase: str, *, state: dict[str, Any] | None = None, deleted: datetime | None = None, **status: Any
) -> Any:
    """A pod with the fields that are read."""
    resources = {"limits": {"memory": "1433Mi"}}
    sidecar = {"name": "beside", "state": {"running": {}}}
    statuses = [] if state is None else [sidecar, {"name": DRIVER, "state": state}]
    metadata = {"name": "stateward-s-1", "creationTimestamp": "2026-11-26T11:00:00Z"}
    if deleted is not None:
        metadata["deletionTimestamp"] = deleted.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "beside"}, {"name": DRIVER, "resources": resources}]},
        "status": {"phase": phase, "containerStatuses": statuses, **status},
    }


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


@pytest.mark.parametrize(
    ("found", "where"),
    [
        (pod("Pending"), Presence.ALIVE),
        (pod("Running", state={"running": {}}), Presence.ALIVE),
        (pod("Succeeded", state=ended(0)), Presence.GONE),
        (pod("Failed", state=ended(1)), Presence.GONE),
        (pod("Unknown"), Presence.ELSEWHERE),
        # Deleted: it drains until its grace period is over; a host that is away keeps it beyond that.
        (pod("Running", deleted=NOW + timedelta(seconds=60)), Presence.ALIVE),
        (pod("Running", deleted=NOW - timedelta(seconds=30)), Presence.ALIVE),
        (pod("Running", deleted=NOW - timedelta(seconds=90)), Presence.ELSEWHERE),
        (pod("Failed", deleted=NOW - timedelta(seconds=90)), Presence.GONE),
    ],
)
def test_a_driver_is_where_the_phase_of_its_pod_says(found: Any, where: Presence) -> None:
    assert presence_of(found, NOW) is where


def test_a_container_that_was_killed_for_its_memory_is_out_of_memory() -> None:
    found = exit_of(pod("Failed", state=ended(137, "OOMKilled")))
    assert (found.kind, found.said) == (
        "out_of_memory",
        "Kubernetes: its container was ended as OOMKilled, with a limit of 1433Mi",
    )


@pytest.mark.parametrize("reason", ["Evicted", "NodeShutdown", "Preempting"])
def test_a_pod_that_the_kubelet_has_ended_is_evicted(reason: str) -> None:
    found = exit_of(pod("Failed", state=ended(137), reason=reason, message="The node was low on resource."))
    assert (found.kind, found.said) == ("evicted", f"Kubernetes: {reason}: The node was low on resource.")


def test_a_pod_that_was_disrupted_is_evicted() -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "m",
    }
    found = exit_of(pod("Failed", state=ended(143), conditions=[condition]))
    assert (found.kind, found.said) == ("evicted", "Kubernetes: EvictionByEvictionAPI: m")


@pytest.mark.parametrize(("code", "kind"), [(0, None), (1, None), (3, None), (137, "killed")])
def test_an_exit_code_is_that_of_the_driver_unless_a_signal_killed_it(code: int, kind: str | None) -> None:
    found = exit_of(pod("Failed", state=ended(code)))
    assert found.kind == kind
    assert found.code == (None if kind else code)


def test_the_reason_of_a_pod_that_waits_is_said() -> None:
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
    }
    assert condition_of(pod("Pending", conditions=[unscheduled])) == (
        "Pending; Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."
    )
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    assert condition_of(pod("Pending", state=waits)) == "Pending; ImagePullBackOff: Back-off pulling image"
    assert condition_of(pod("Running", state={"running": {}})) == "Running"
