"""One bucket in the local copy of a partition's states (`state_cache`): sorted runs and an index of its log.

Each call adds a run with what it changed. Runs of similar sizes are merged, so that a key is written again a
few times until it is in the oldest run, and a bucket has few runs to look into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

import msgspec

from stateward.runtime.keyed.log_index import Chunks
from stateward.runtime.keyed.sorted_run import CachedState, Shape, SortedRun, Wanted, merged

# Entries of a bucket that are always in one run, which has nothing outdated: no timer fires for nothing.
SMALL = 512
# Multiples of these are spread evenly between whole numbers (Roberts, *Quasirandom sequences*, 2018).
_TURN_OF_BUCKET = 0.7548776662
_TURN_OF_CALL = 0.5698402910


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a run is: in a file of the partition."""

    file: str
    begin: int
    shape: Shape


@dataclass
class Level:
    """A run of a bucket.

    Attributes:
        run: The run.
        passed: How many of its entries have been due.
        place: Where it is saved; None if it is new.
    """

    run: SortedRun
    passed: int = 0
    place: Place | None = None


class BucketCopy:
    """The copy of one bucket during a task.

    Args:
        number: The bucket.
        chunks: The index of its log.
        levels: Its runs, oldest first.

    Attributes:
        chunks: The index of the log; empty if the bucket is not in the copy.
        levels: As above.
    """

    def __init__(self, number: int, chunks: Chunks, levels: Iterable[Level] = ()) -> None:
        self._number = number
        self.chunks = chunks
        self.levels = list(levels)

    def find(self, keys: Iterable[str]) -> dict[str, CachedState]:
        """The states of those keys that have one."""
        found: dict[str, CachedState] = {}
        names = list(keys)
        if not names or not self.levels:
            return found
        wanted = Wanted(names)
        for level in reversed(self.levels):
            level.run.find(wanted, found)
            if not len(wanted.left):
                break
        return found

    def add(self, changed: Mapping[str, CachedState | None]) -> None:
        """Set the states of keys; None removes one."""
        if not changed:
            return
        parts: list[SortedRun] = []
        size, patience = len(changed), self._patience()
        is_small = size + sum(level.run.shape.entries for level in self.levels) <= SMALL
        while self.levels and (is_small or self.levels[-1].run.shape.entries <= patience * size):
            parts.append(self.levels.pop().run)
            size += parts[-1].shape.entries
        if not parts and not self.levels:
            changed = {key: state for key, state in changed.items() if state is not None}
        run = SortedRun.of(changed)
        if parts:
            run = merged([run, *parts], is_whole=not self.levels)
        if run.shape.entries:
            self.levels.append(Level(run))

    def _patience(self) -> float:
        """How many times larger than all newer ones a run is at most that is merged with them.

        From a half to two, and different from bucket to bucket and from call to call: buckets of equal size
        would otherwise merge their oldest run in the same batch, all of them.
        """
        turn = self._number * _TURN_OF_BUCKET + self.chunks.next_write * _TURN_OF_CALL
        return float(4 ** (turn % 1 - 0.5))

    def replace(self, chunks: Chunks, states: Mapping[str, CachedState]) -> None:
        """Begin again with another index and these states."""
        self.chunks, self.levels = chunks, []
        self.add(states)

    def items(self) -> Iterator[tuple[str, CachedState]]:
        """All keys with their states, in no particular order."""
        if self.levels:
            whole = merged([level.run for level in reversed(self.levels)], is_whole=True)
            yield from ((key, state) for key, state in whole.items() if state is not None)

    def due(self, until_ms: int, changed: Set[str]) -> dict[str, CachedState]:
        """The keys that are due at or before ``until_ms``, by time, without those that have changed.

        An entry is looked at once. Afterwards its key has a newer one, or is not due any more.
        """
        keys: set[str] = set()
        for level in self.levels:
            places = level.run.due(level.passed, until_ms)
            if len(places):
                keys.update(level.run.keys(places))
                level.passed += len(places)
        # A newer run may have another state of a key, which is due later, or its end.
        found = self.find(keys - changed)
        due = sorted((state.due_ms, key) for key, state in found.items() if state.due_ms <= until_ms)
        return {key: found[key] for _, key in due}

    def next_due(self) -> int | None:
        """A time (ms) before which no key is due, or None if none ever is."""
        times = [level.run.next_due(level.passed) for level in self.levels]
        return min((due_ms for due_ms in times if due_ms is not None), default=None)
