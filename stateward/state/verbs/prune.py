"""The verb ``prune``: remove old savepoints, operations and generations; never the only good savepoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stateward.contract import storage
from stateward.contract.process_output import READY
from stateward.runtime.checkpoint.generations import POINTER, Generation, folder_of, is_beside
from stateward.state.operation.answer import Answer
from stateward.state.operation.verb import Change
from stateward.state.savepoints.manifest import NAME
from stateward.state.savepoints.savepoint_catalog import Savepoint

# A savepoint without a manifest may still be copied.
_LONGEST_COPY = timedelta(days=1)
_STAMP = "%Y%m%dT%H%M%SZ"
_GENERATION = re.compile(r"g(\d{4,})")
_PARTS_OF_A_CHECKPOINT = ("metadata", "offsets", "commits", "state", "sources", "stateward")


@dataclass(frozen=True)
class Policy:
    """Which savepoints are kept.

    Attributes:
        newest: How many of the newest good ones are kept, at least 1.
        younger_than: Savepoints younger than this are kept.
    """

    newest: int
    younger_than: timedelta


@dataclass(frozen=True)
class Unneeded:
    """What a prune removes.

    Attributes:
        savepoints: The savepoints that the policy does not keep.
        kept: Ids of the savepoints that it keeps.
        operations: Ids of operations.
        names: What is in the folder of all generations.
        generations: Numbers of generations.
    """

    savepoints: tuple[Savepoint, ...]
    kept: tuple[str, ...]
    operations: tuple[str, ...]
    names: tuple[str, ...]
    generations: tuple[int, ...]


class PruneVerb(Change[Unneeded]):
    """Remove what the policy does not keep; not while an operation is pending, which may need a savepoint."""

    name = "prune"

    def plan(self) -> Unneeded:
        """Find what is no longer needed. Every file of every savepoint is read."""
        context, request, now = self.context, self.context.request, self.context.clock()
        arguments = request.arguments
        context.report("savepoints", "reading")
        savepoints = [context.catalog.look(savepoint) for savepoint in context.catalog.ids()]
        context.report("savepoints", READY)
        policy = Policy(arguments["keep"], timedelta(days=arguments["days"]))
        going = to_remove(savepoints, policy, now)
        others = set(storage.list_names(request.operations_uri) if request.operations_uri else ())
        others -= {request.operation}
        names = storage.list_names(context.generation.root)
        return Unneeded(
            savepoints=tuple(going),
            kept=tuple(one.savepoint for one in savepoints if one not in going),
            operations=tuple(old_operations(others, timedelta(days=arguments["operations_days"]), now)),
            names=tuple(names),
            generations=tuple(old_generations(context.generation, names, arguments["generations"])),
        )

    def preview(self, plan: Unneeded) -> Answer:
        """Report what would be removed."""
        removed = [one.savepoint for one in plan.savepoints]
        size = sum(one.manifest.size for one in plan.savepoints if one.manifest is not None)
        would = "Would be removed" if self.context.request.dry_run else "Removed"
        gone = ", ".join(str(number) for number in plan.generations)
        return Answer(
            (
                f"{would}: {', '.join(removed) or 'none'}; {size:,} bytes of savepoints.",
                f"Kept: {', '.join(plan.kept) or 'none'}.",
                f"{would} of earlier generations: {gone or 'none'}.",
                f"{would} of old operations: {len(plan.operations)}.",
            ),
            data={
                "removed": removed,
                "bytes": size,
                "kept": plan.kept,
                "operations": plan.operations,
                "generations": plan.generations,
            },
        )

    def apply(self, plan: Unneeded) -> Answer:
        """Remove it."""
        context, request = self.context, self.context.request
        for one in plan.savepoints:
            context.report("savepoints", f"removing {one.savepoint}")
            # First, so that the rest of an interrupted removal is not taken for a savepoint.
            if NAME in storage.list_names(one.uri):
                storage.delete(f"{one.uri}/{NAME}")
            storage.delete(one.uri)
        for name in plan.operations:
            context.report("operations", f"removing {name}")
            storage.delete(f"{request.operations_uri}/{name}")
            storage.delete(f"{request.logs_uri}/{name}.log")
        for number in plan.generations:
            context.report("generations", f"removing {number}")
            remove_generation(context.generation.root, number, plan.names)
        context.report("clearing", READY)
        return self.preview(plan)


def to_remove(savepoints: Sequence[Savepoint], policy: Policy, now: datetime) -> list[Savepoint]:
    """Return the savepoints to remove.

    Broken ones are removed when they are old enough. Without a good one nothing is removed: a broken one may
    be all that is left. A folder without the name of a savepoint stays.
    """
    good = [one for one in savepoints if one.is_good]
    if not good:
        return []
    kept = {one.savepoint for one in good[-max(1, policy.newest) :]}
    return [one for one in savepoints if one.savepoint not in kept and _is_old(one, policy.younger_than, now)]


def _is_old(one: Savepoint, younger_than: timedelta, now: datetime) -> bool:
    if one.begun_at is None:
        return False
    age = now - one.begun_at
    return age >= younger_than and (one.manifest is not None or age >= _LONGEST_COPY)


def old_operations(names: Iterable[str], longest: timedelta, now: datetime) -> list[str]:
    """Return the operations that are at least ``longest`` old; other names stay."""
    return sorted(name for name in names if (at := _asked_at(name)) is not None and now - at >= longest)


def _asked_at(name: str) -> datetime | None:
    try:
        return datetime.strptime(name.partition("-")[0], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def old_generations(current: Generation, names: Sequence[str], keep: int) -> list[int]:
    """Numbers of the generations before the current one, except the newest `keep`.

    A later generation may still be built, and stays.

    Args:
        current: The current generation.
        names: The names in the folder of all generations.
        keep: How many earlier generations stay.
    """
    numbers = {int(found[1]) for name in names if (found := _GENERATION.fullmatch(name))}
    if current.number > 1 and "metadata" in names:
        numbers.add(1)  # from before there were generations, in the folder itself
    earlier = sorted(number for number in numbers if number < current.number)
    return earlier[: max(0, len(earlier) - keep)]


def remove_generation(root: str, number: int, names: Sequence[str]) -> None:
    """Remove an earlier generation.

    Args:
        root: The folder of all generations.
        number: Which.
        names: The names in that folder.
    """
    if folder_of(number) in names:
        storage.delete(f"{root}/{folder_of(number)}")
        return
    for name in names:
        if name != POINTER and not is_beside(name) and name.lstrip(".").startswith(_PARTS_OF_A_CHECKPOINT):
            storage.delete(f"{root}/{name}")
