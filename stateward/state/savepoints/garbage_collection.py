"""Remove what operations have left behind: folders of old operations, and checkpoints that count no more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stateward.contract import storage
from stateward.contract.job_steps import READY, Report
from stateward.runtime.checkpoint.generations import POINTER, Generation, folder_of, is_beside
from stateward.state.files import checkpoint_copy

_STAMP = "%Y%m%dT%H%M%SZ"
_GENERATION = re.compile(r"g(\d{4,})")
_PARTS_OF_A_CHECKPOINT = ("metadata", "offsets", "commits", "state", "sources", "stateward")


@dataclass(frozen=True)
class Cleared:
    """What was removed, or would be.

    Attributes:
        operations: Ids of operations.
        generations: Numbers of generations.
    """

    operations: tuple[str, ...]
    generations: tuple[int, ...]


def old_operations(names: Iterable[str], longest: timedelta, now: datetime) -> list[str]:
    """Those that were asked for so long ago; a name that is not an operation's is nobody's to remove."""
    return sorted(name for name in names if (at := _asked_at(name)) is not None and now - at >= longest)


def _asked_at(name: str) -> datetime | None:
    try:
        return datetime.strptime(name.partition("-")[0], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def old_generations(current: Generation, names: list[str], keep: int) -> list[int]:
    """Numbers of those before the current one, but for the newest `keep`.

    What comes after it may be in the making.

    Args:
        current: The one that counts.
        names: What is in the folder of all of them.
        keep: How many stay.
    """
    numbers = {int(found[1]) for name in names if (found := _GENERATION.fullmatch(name))}
    if current.number > 1 and "metadata" in names:
        numbers.add(1)  # from before there were generations, in the folder itself
    earlier = sorted(number for number in numbers if number < current.number)
    return earlier[: max(0, len(earlier) - keep)]


def clear(
    current: Generation,
    operation: str,
    operations_uri: str,
    logs_uri: str,
    *,
    longest: timedelta,
    keep: int,
    now: datetime,
    dry_run: bool,
    report: Report,
) -> Cleared:
    """Remove operations and generations that are no longer needed.

    Args:
        current: The generation that counts; no operation of it is under way.
        operation: The one that asks, which stays.
        operations_uri: Folder of the stream's operations.
        logs_uri: Folder of their logs.
        longest: How long operations stay.
        keep: How many earlier generations stay.
        now: The time, aware.
        dry_run: Whether only to say what would go.
        report: Takes each step.
    """
    others = set(storage.list_names(operations_uri) if operations_uri else ()) - {operation}
    operations = old_operations(others, longest, now)
    names = storage.list_names(current.root)
    generations = old_generations(current, names, keep)
    if not dry_run:
        for name in operations:
            report("operations", f"removing {name}")
            checkpoint_copy.remove(f"{operations_uri}/{name}")
            checkpoint_copy.remove(f"{logs_uri}/{name}.log")
        for number in generations:
            report("generations", f"removing {number}")
            _remove_generation(current.root, number, names)
    report("clearing", READY)
    return Cleared(tuple(operations), tuple(generations))


def _remove_generation(root: str, number: int, names: list[str]) -> None:
    if folder_of(number) in names:
        checkpoint_copy.remove(f"{root}/{folder_of(number)}")
        return
    for name in names:
        if name != POINTER and not is_beside(name) and name.lstrip(".").startswith(_PARTS_OF_A_CHECKPOINT):
            checkpoint_copy.remove(f"{root}/{name}")
