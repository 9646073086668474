"""Reconcile until there is nothing left to do but to watch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from stateward.control.reconcile.decide import Action, Done, Drain, GiveUp, Healthy, Held, Suspended, Wait
from stateward.control.reconcile.watch_clock import WatchClock

log = logging.getLogger(__name__)

REACHED: tuple[type[Action], ...] = (Healthy, Done, GiveUp, Held, Suspended)
"""Nothing will change by itself, or not soon: for who waits for the outcome."""

NOTHING_DUE: tuple[type[Action], ...] = (*REACHED, Wait, Drain)
"""Nothing to act on now: for who has a trigger that watches on."""


class Reconciler(Protocol):
    """What `settle` needs of a `Controller`."""

    def reconcile(self, clock: WatchClock) -> Action:
        """Observe, decide and act once."""


def settle(
    controller: Reconciler,
    pause: Callable[[], None],
    until: tuple[type[Action], ...],
    clock: WatchClock | None = None,
) -> Action:
    """Reconcile again and again until a decision is one of `until`.

    Args:
        controller: Acts. Every wait it asks for ends by one of the stream's own deadlines, except
            that for a driver on another host that does not drain.
        pause: Called between two steps.
        until: `REACHED` or `NOTHING_DUE`.
        clock: That of the watcher before; a new one by default.

    Returns:
        The last decision.
    """
    clock, said = clock or WatchClock(), ""
    while True:
        action = controller.reconcile(clock)
        kind = type(action).__name__
        if kind != said:
            log.info("%s: %s", kind, action.reason)
            said = kind
        if isinstance(action, until):
            return action
        pause()
