"""The maintenance of one table, from its inspection to the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from deltalake import DeltaTable

from stateward.maintenance import steps
from stateward.maintenance.expiry import expire
from stateward.maintenance.policy import AGED, Policy
from stateward.maintenance.retention import Need, Retention, retention
from stateward.maintenance.table_files import Sizes, sizes

Report = Callable[[str, str], None]


@dataclass(frozen=True)
class Task:
    """The maintenance of one table, planned.

    Attributes:
        table: The table's name.
        uri: Its folder.
        policy: Its policy.
        needs: References to its versions.
        in_doubt: Why nothing may be removed; empty if removal is allowed.
    """

    table: str
    uri: str
    policy: Policy
    needs: tuple[Need, ...] = ()
    in_doubt: str = ""


@dataclass(frozen=True)
class Maintained:
    """The result of the maintenance of one table.

    Attributes:
        table: The table's name.
        table_id: Delta's identifier of the table.
        at: When the maintenance began.
        before: Its files before.
        after: Its files afterwards; after a dry run the same.
        kept: What had to stay.
        steps: The outcome of each step, by the step's name.
        open_ms: How long opening the table takes now, ms.
        seconds: Duration of the maintenance, s.
    """

    table: str
    table_id: str
    at: datetime
    before: Sizes
    after: Sizes
    kept: Retention
    steps: dict[str, str]
    open_ms: float
    seconds: float


def maintain(task: Task, *, now: datetime, dry_run: bool, report: Report) -> Maintained:
    """Run every step for one table; in a dry run only say what each would do.

    Args:
        task: The table.
        now: The time, aware.
        dry_run: Whether to change nothing.
        report: Called at the end of each step with its name and outcome.

    Raises:
        DeltaError: The table cannot be read.
        OSError: The storage cannot be read.
    """
    begun = time.monotonic()
    policy, said = task.policy, dict[str, str]()
    table = DeltaTable(task.uri)
    before = sizes(table, task.uri, policy.target_mb)
    kept = _kept(task, table, before, now)

    def note(step: str, what: str) -> None:
        said[step] = what
        report(step, what)

    note("properties", steps.align(task.uri, policy.properties, dry_run=dry_run))
    if policy.max_age is not None and task.table in AGED:
        note("rows", expire(task.table, task.uri, max_age=policy.max_age, now=now, dry_run=dry_run))
    note(
        "compaction",
        steps.compact(
            task.uri,
            small_files=policy.small_files,
            target_mb=policy.target_mb,
            now=now,
            dry_run=dry_run,
        ),
    )
    if said["properties"] == steps.GAVE_WAY:
        task = replace(task, in_doubt="its properties are not yet those of its policy")
    for step, what in _removal(task, kept, before, dry_run=dry_run):
        note(step, what)
    opening = time.monotonic()
    table = DeltaTable(task.uri)
    open_ms = (time.monotonic() - opening) * 1000
    after = before if dry_run else sizes(table, task.uri, policy.target_mb)
    seconds = time.monotonic() - begun
    return Maintained(task.table, str(table.metadata().id), now, before, after, kept, said, open_ms, seconds)


def _kept(task: Task, table: DeltaTable, before: Sizes, now: datetime) -> Retention:
    then = DeltaTable(task.uri)
    then.load_as_version(now - task.policy.history)
    return retention(
        now=now,
        history=task.policy.history,
        newest=table.version(),
        first_on_record=before.first_on_record,
        as_of_history=then.version(),
        needs=task.needs,
    )


def _removal(task: Task, kept: Retention, before: Sizes, *, dry_run: bool) -> Iterable[tuple[str, str]]:
    if task.in_doubt:
        yield "removal", f"nothing: {task.in_doubt}"
        return
    if kept.lost:
        gone = ", ".join(f"version {need.version} ({need.why})" for need in kept.lost[:3])
        yield "no longer on record", f"{gone}{' and more' if len(kept.lost) > 3 else ''}"
    history = task.policy.history
    yield "files", steps.vacuum(task.uri, history=history, pinned=kept.pinned, dry_run=dry_run)
    if dry_run:
        yield "log", f"would be kept from version {kept.oldest_version} on"
        return
    yield "checkpoint", steps.checkpoint(task.uri, before.checkpoint)
    yield "log", steps.clean_log(task.uri, kept.oldest_version)
