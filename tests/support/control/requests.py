"""Requests to streams, as the form of their DAG creates them."""

from __future__ import annotations

from datetime import UTC, datetime

from stateward.control.reconcile.desired_state import Wish, WishAction


def wish(action: WishAction, by: str = "test", reason: str = "", author: str = "someone") -> Wish:
    """What a run of a stream's DAG asks for, now."""
    return Wish(action, by, author, reason, datetime.now(UTC))
