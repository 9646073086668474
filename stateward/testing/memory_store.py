"""A store of states in dictionaries, for tests of what does not depend on the log and its copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stateward.contract.stream_status import BucketSize
from stateward.runtime.keyed.state_store import Encoded, StateRules

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


@dataclass(frozen=True)
class MemoryState:
    """A state, and when its key is due."""

    state: Encoded
    due_ms: int

    @property
    def packed(self) -> bytes:
        """The compact encoding."""
        return self.state.packed


@dataclass(frozen=True)
class _Contents:
    """What is kept of a bucket between two calls."""

    states: dict[str, MemoryState] = field(default_factory=dict)
    timer_ms: int | None = None
    schema_version: int = 0


class MemoryBackend:
    """Keeps what tasks have committed.

    Attributes:
        buckets: The contents of each bucket.
    """

    def __init__(self) -> None:
        self.buckets: dict[int, _Contents] = {}

    def open(self, handle: StatefulProcessorHandle, rules: StateRules) -> MemoryStore:
        """The store of a task; the handle is used for timers only."""
        return MemoryStore(self, handle, rules)

    def states(self, number: int) -> dict[str, bytes]:
        """The committed states of a bucket."""
        found = self.buckets.get(number, _Contents())
        return {key: kept.state.text for key, kept in found.states.items()}


class MemoryStore:
    """The states of one task: those committed, and its own changes of them."""

    def __init__(self, backend: MemoryBackend, handle: StatefulProcessorHandle, rules: StateRules) -> None:
        self._backend = backend
        self._handle = handle
        self._rules = rules
        self._changed: dict[int, _Contents] = {}

    def bucket(self, number: int, passed_ms: int) -> MemoryBucket:
        """The bucket that Spark processes."""
        found = self._changed.get(number) or self._backend.buckets.get(number) or _Contents()
        return MemoryBucket(self, number, self._upgraded(found), passed_ms)

    def commit(self) -> None:
        """End the task; a bucket without keys is not kept."""
        self._backend.buckets |= self._changed
        for number in [number for number in self._changed if not self._changed[number].states]:
            del self._backend.buckets[number]
        self._changed = {}

    def abort(self) -> None:
        """End the task without its changes."""
        self._changed = {}

    def keep(self, number: int, states: dict[str, MemoryState], timer_ms: int | None) -> None:
        """Take over what a call has changed."""
        self._changed[number] = _Contents(states, timer_ms, self._rules.schema_version)

    def set_timer(self, old_ms: int | None, new_ms: int | None) -> None:
        """Replace Spark's timer of the bucket."""
        if old_ms is not None:
            self._handle.deleteTimer(old_ms)
        if new_ms is not None:
            self._handle.registerTimer(new_ms)

    def _upgraded(self, found: _Contents) -> _Contents:
        rules = self._rules
        if not found.states or found.schema_version == rules.schema_version:
            return found
        texts = {
            key: rules.upgrade(found.schema_version, key, old.state.text) for key, old in found.states.items()
        }
        states = {key: MemoryState(*rules.loaded(key, text)) for key, text in texts.items()}
        return replace(found, states=states, schema_version=rules.schema_version)


class MemoryBucket:
    """The states of one bucket during one call."""

    def __init__(self, store: MemoryStore, number: int, found: _Contents, passed_ms: int) -> None:
        self._store = store
        self._number = number
        self._timer_ms = found.timer_ms
        self._states = dict(found.states)
        self.passed_ms = passed_ms

    def find(self, keys: Iterable[str]) -> dict[str, MemoryState]:
        """The states of those keys that have one."""
        return {key: self._states[key] for key in keys if key in self._states}

    def put(self, key: str, before: MemoryState | None, state: Encoded | None, due_ms: int) -> None:
        """Set the state of a key."""
        assert before == self._states.get(key), f"{key}: before is what find returns"
        if state is None:
            assert before is not None, f"{key}: a key without a state has none to keep"
            state = before.state
        self._states[key] = MemoryState(state, due_ms)

    def remove(self, key: str, before: MemoryState) -> None:
        """Remove a key."""
        assert before == self._states.pop(key), f"{key}: before is what find returns"

    def due(self) -> dict[str, MemoryState]:
        """The keys that are due."""
        return {key: kept for key, kept in self._states.items() if kept.due_ms <= self.passed_ms}

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All keys with their packed states."""
        return ((key, kept.packed) for key, kept in self._states.items())

    def finish(self, fired_ms: int | None = None) -> int | None:
        """Keep the changes, and set Spark's timer to when the first key is due."""
        timer_ms = min((kept.due_ms for kept in self._states.values()), default=None)
        if timer_ms != self._timer_ms:
            self._store.set_timer(self._timer_ms if self._timer_ms != fired_ms else None, timer_ms)
        self._store.keep(self._number, self._states, timer_ms)
        return timer_ms

    def size(self) -> BucketSize:
        """The size of the bucket, with its largest key exactly."""
        sizes = [len(key.encode()) + len(kept.state.text) for key, kept in self._states.items()]
        return BucketSize(0, len(sizes), sum(sizes), max(sizes, default=0))
