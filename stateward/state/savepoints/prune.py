"""Remove savepoints that nobody needs, by a policy; never the only good one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from stateward.contract import storage
from stateward.contract.job_steps import READY, Report
from stateward.state.files import checkpoint_copy
from stateward.state.savepoints.manifest import NAME
from stateward.state.savepoints.savepoint_catalog import Savepoint, SavepointCatalog

# A savepoint without a manifest may be in the making.
_LONGEST_MAKING = timedelta(days=1)


@dataclass(frozen=True)
class Policy:
    """Which savepoints are kept.

    Attributes:
        newest: So many of the good ones, at least 1.
        younger_than: All that were begun so short a time ago.
    """

    newest: int
    younger_than: timedelta


@dataclass(frozen=True)
class Pruned:
    """What was removed, or would be, and what is left."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]


def to_remove(savepoints: Sequence[Savepoint], policy: Policy, now: datetime) -> list[Savepoint]:
    """Which of them go.

    Broken ones go when they are old enough. While there is no good one nothing goes: a broken one may be all
    that is left. A folder that is not named as a savepoint is nobody's to remove.
    """
    good = [one for one in savepoints if one.is_good]
    if not good:
        return []
    kept = {one.savepoint for one in good[-max(1, policy.newest) :]}
    return [one for one in savepoints if one.savepoint not in kept and _is_old(one, policy.younger_than, now)]


def prune(shelf: SavepointCatalog, policy: Policy, *, now: datetime, dry_run: bool, report: Report) -> Pruned:
    """Remove what the policy does not keep.

    Args:
        shelf: The stream's savepoints.
        policy: What is kept.
        now: The time, aware.
        dry_run: Whether only to say what would go.
        report: Takes each step.
    """
    report("savepoints", "reading")
    looked = [shelf.look(savepoint) for savepoint in shelf.ids()]
    going = to_remove(looked, policy, now)
    for one in going if not dry_run else []:
        report("savepoints", f"removing {one.savepoint}")
        # What is left of it, should this be interrupted, is not taken for a savepoint.
        if NAME in storage.list_names(one.uri):
            checkpoint_copy.remove(f"{one.uri}/{NAME}")
        checkpoint_copy.remove(one.uri)
    report("savepoints", READY)
    removed = tuple(one.savepoint for one in going)
    return Pruned(removed, tuple(one.savepoint for one in looked if one.savepoint not in removed))


def _is_old(one: Savepoint, younger_than: timedelta, now: datetime) -> bool:
    if one.begun_at is None:
        return False
    age = now - one.begun_at
    return age >= younger_than and (one.manifest is not None or age >= _LONGEST_MAKING)
