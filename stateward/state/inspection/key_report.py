"""The report on one key: its current entries, its future changes, and its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.state.inspection.state_changes import Change, changes


@dataclass(frozen=True)
class HistorySource:
    """The batches from which the history of a key is read.

    Attributes:
        base: The batch with the initial state; None for an empty one.
        spans: First and last batch of the change feeds to read, oldest first.
        planned: The plans of the batches.
    """

    base: int | None
    spans: tuple[tuple[int, int], ...]
    planned: Mapping[int, PlannedBatch]

    def happening(
        self, batch_id: int, store: str, key: str, *, what: str, before: Any, after: Any
    ) -> StateChange:
        """The change of the key by a batch; ``before`` and ``after`` are None without a state."""
        plan = self.planned.get(batch_id)
        planned_ms, watermark_ms = (None, None) if plan is None else (plan.planned_ms, plan.watermark_ms)
        return StateChange(
            batch_id, planned_ms, watermark_ms, store, key, what, changes(before, after), after
        )


@dataclass(frozen=True)
class Entry:
    """One entry of the key in the state of the batch.

    Attributes:
        operator_id: Spark's number of the operator.
        operator: Spark's name of the operator.
        store: The variable or store.
        partition: Its partition.
        bucket: Its bucket, in a keyed stream.
        key: The key as stored.
        value: The state, decoded from JSON.
        settled: The state after processing the key: held events that the watermark has passed are folded, and
            its schema is current. None if that is equal, or unknown.
        bytes: Size of the value as JSON text.
        ends_ms: The watermark of its next change; None if unknown.
        why: The cause of that change.
    """

    operator_id: int
    operator: str
    store: str
    partition: int
    bucket: int | None
    key: str
    value: Any
    settled: Any
    bytes: int
    ends_ms: int | None
    why: str


@dataclass(frozen=True)
class PendingTimer:
    """A future change of the key, if no event arrives.

    Attributes:
        at_ms: The watermark at which it happens (ms since 1970 UTC).
        what: The change as text.
        changes: The fields that change.
        rows: The rows it emits: name of the row's type, and its fields.
        is_end: Whether the key is removed.
    """

    at_ms: int
    what: str
    changes: tuple[Change, ...]
    rows: tuple[tuple[str, dict[str, Any]], ...]
    is_end: bool


@dataclass(frozen=True)
class StateChange:
    """A change of the key by a batch.

    Attributes:
        batch_id: The batch.
        planned_ms: When it was planned (ms since 1970 UTC); None if unknown.
        watermark_ms: Its watermark; None if unknown.
        store: The variable or store.
        key: The key as stored.
        what: The change as text.
        changes: The fields that changed.
        value: The state after it; None if removed.
    """

    batch_id: int
    planned_ms: int | None
    watermark_ms: int | None
    store: str
    key: str
    what: str
    changes: tuple[Change, ...]
    value: Any


@dataclass(frozen=True)
class KeyReport:
    """The report of one operator or store on the key."""

    entries: tuple[Entry, ...] = ()
    coming: tuple[PendingTimer, ...] = ()
    history: tuple[StateChange, ...] = ()
    bucket_timer_ms: int | None = None
