"""Starts of drivers on one host wait for each other.

A start takes a core for half a minute. Many at once, as after a reboot, take so long that each looks as if it
hung. So as many start at the same time as there are cores (STATEWARD_STARTS_AT_ONCE); the others wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from stateward.control.health.thresholds import Thresholds
from stateward.control.launchers import processes
from stateward.control.reconcile.decide import Action, Launch, Observed, Queued, decide
from stateward.control.reconcile.observe import read_status
from stateward.platform.lock import only_holder
from stateward.project.layout import Layout


def in_turn(action: Action, others: Sequence[str], slots: int) -> Action:
    """Let a launch wait while as many other drivers start as may. Pure.

    Args:
        action: What was decided.
        others: The streams whose drivers start.
        slots: How many may start at the same time.
    """
    if not isinstance(action, Launch) or len(others) < slots:
        return action
    return Queued(
        f"{action.reason}; waits for its turn after {', '.join(others)}, which start on this host"
        f" (STATEWARD_STARTS_AT_ONCE={slots})",
        launch=action,
    )


def decide_in_turn(layout: Layout, limits: Thresholds, seen: Observed, now: datetime, slots: int) -> Action:
    """Decide, and let a launch wait for its turn on this host."""
    action = decide(limits, seen, now)
    if not isinstance(action, Launch) or seen.control is None:
        return action
    return in_turn(action, starting(layout, seen.control.stream, now, limits.start_deadline), slots)


def starting(layout: Layout, stream: str, now: datetime, deadline: timedelta) -> list[str]:
    """Name the other streams of this installation whose drivers start on this host.

    Args:
        layout: Where their documents lie.
        stream: The stream that asks.
        now: The time, UTC.
        deadline: A start without progress for this long does not count: its supervisor ends it.
    """
    found = []
    for name, (run_id, since) in processes.drivers(layout.home).items():
        if name == stream:
            continue
        status = read_status(layout, name)
        reached = datetime.fromtimestamp(since, UTC)
        if status is not None and status.run_id == run_id:
            if status.state != "starting":
                continue
            reached = max(reached, status.phase_at or status.started_at)
        if now - reached <= deadline:
            found.append(name)
    return sorted(found)


@contextmanager
def only_launch(layout: Layout) -> Iterator[bool]:
    """Hold the lock of the host's starts; False when another stream is launched at this moment.

    Held from the count of those that start until the new driver is there and counts itself.
    """
    with only_holder(layout.home / "locks" / "starts.lock") as mine:
        yield mine
