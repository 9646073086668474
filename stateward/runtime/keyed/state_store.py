"""The seam between the fold of a keyed stream and the store of its states.

`BucketProcessor` runs the logic and knows no more of a store than this module says. `log_store` keeps the
states of a driver; `stateward/testing/memory_store.py` keeps those of a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from stateward.contract.stream_status import BucketSize

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


class Encoded(NamedTuple):
    """A state in both encodings (`codec`).

    Attributes:
        text: As JSON, never ``null``: every release reads it.
        packed: Compact, for what is built again when the release changes.
    """

    text: bytes
    packed: bytes


@dataclass(frozen=True)
class StateRules:
    """What a store asks about the states, which it does not decode.

    Attributes:
        schema_version: The current version of states.
        layout: Differs between releases that pack states differently.
        upgrade: Converts a state to the current version, from its version, key and text.
        loaded: A state in both encodings, and when the logic has to run for it (ms), from key and text.
    """

    schema_version: int
    layout: str
    upgrade: Callable[[int, str, bytes], bytes]
    loaded: Callable[[str, bytes], tuple[Encoded, int]]


class StoredState(Protocol):
    """A state as its store returns it, which the store may want back when the state changes."""

    @property
    def packed(self) -> bytes:
        """The compact encoding."""


Found = TypeVar("Found", bound=StoredState)


class BucketStates(Protocol[Found]):
    """The states of one bucket during one call of Spark; `finish` ends it.

    A later call of the same task finds the changes that `finish` has taken over.
    """

    @property
    def passed_ms(self) -> int:
        """The time up to which the batch folds events: its watermark, or the next one."""

    def find(self, keys: Iterable[str]) -> dict[str, Found]:
        """The states of those keys that have one; each key is given once."""

    def put(self, key: str, before: Found | None, state: Encoded | None, due_ms: int) -> None:
        """Set the state of a key and when the logic has to run for it.

        Args:
            key: The key.
            before: The state that `find` or `due` returned, so that no store has to read it again.
            state: The new state, or None if it is that before.
            due_ms: What `StateRules.loaded` returns for it; later than ``passed_ms``.
        """

    def remove(self, key: str, before: Found) -> None:
        """Remove a key; ``before`` is its state, as for `put`."""

    def due(self) -> dict[str, Found]:
        """The keys for which the logic has to run by ``passed_ms``, with their states.

        Each has to be put or removed before `finish`.
        """

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All keys with their packed states, in no particular order."""

    def finish(self, fired_ms: int | None = None) -> int | None:
        """Keep the changes, and set the bucket's timer in Spark.

        Args:
            fired_ms: The timer of this call, which Spark deletes.

        Returns:
            The timer (ms since 1970 UTC): later than ``passed_ms``, and never later than the first key is
            due. None if the bucket is empty.
        """

    def size(self) -> BucketSize:
        """The size of the bucket after `finish`."""


class StateStore(Protocol[Found]):
    """The states of one state partition, during one task."""

    def bucket(self, number: int, passed_ms: int) -> BucketStates[Found]:
        """The bucket that Spark processes; its states have the current version."""

    def commit(self) -> None:
        """End the task; the next one finds its changes, if Spark commits the batch."""

    def abort(self) -> None:
        """End the task without its changes."""


class StateBackend(Protocol):
    """Opens the store of a task. It is sent to the workers, so it can be pickled."""

    def open(self, handle: StatefulProcessorHandle, rules: StateRules) -> StateStore[Any]:
        """The store of a task; called on the driver too, where Spark collects the state variables."""
