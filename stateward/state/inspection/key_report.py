"""What is told of one key: what is kept of it, what is to come, and what has been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.state.inspection.state_changes import Change, changes


@dataclass(frozen=True)
class HistorySource:
    """Where to look for what has been.

    Attributes:
        base: The batch whose state is the beginning; None to begin with nothing.
        spans: First and last batch of the change feeds to read, oldest first.
        planned: The plans of the batches.
    """

    base: int | None
    spans: tuple[tuple[int, int], ...]
    planned: Mapping[int, PlannedBatch]

    def happening(
        self, batch_id: int, store: str, key: str, *, what: str, before: Any, after: Any
    ) -> StateChange:
        """What a batch did to the key, from what was kept before it and after; None if nothing."""
        plan = self.planned.get(batch_id)
        planned_ms, watermark_ms = (None, None) if plan is None else (plan.planned_ms, plan.watermark_ms)
        return StateChange(
            batch_id, planned_ms, watermark_ms, store, key, what, changes(before, after), after
        )


@dataclass(frozen=True)
class Entry:
    """One thing that is kept for the key, as of the batch.

    Attributes:
        operator_id: Spark's number of the operator.
        operator: Spark's name of it.
        store: The variable or store.
        partition: Where it lies.
        bucket: Its bucket, of a keyed stream.
        key: The key as the store has it.
        value: The state, as its JSON says.
        settled: The same as a look at the key would leave it, with the held events folded that the watermark
            has passed, and in the present version of its schema; None if that is no different, or not known.
        bytes: Of the value, as JSON text.
        ends_ms: The watermark at which something is next to happen to it; None if that is not known.
        why: What that is.
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
    """What will happen to the key if no event comes.

    Attributes:
        at_ms: The watermark at which it happens (ms since 1970 UTC).
        what: In words.
        changes: What will be different.
        rows: The rows it brings: name of the row's type, and its fields.
        is_end: Whether nothing is left of the key then.
    """

    at_ms: int
    what: str
    changes: tuple[Change, ...]
    rows: tuple[tuple[str, dict[str, Any]], ...]
    is_end: bool


@dataclass(frozen=True)
class StateChange:
    """What a batch did to the key.

    Attributes:
        batch_id: The batch.
        planned_ms: When it was planned (ms since 1970 UTC); None if that is not on record.
        watermark_ms: Its watermark; None likewise.
        store: The variable or store.
        key: The key as the store has it.
        what: In words.
        changes: What was different afterwards.
        value: What was kept then; None if nothing.
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
    """What one operator or store says of the key."""

    entries: tuple[Entry, ...] = ()
    coming: tuple[PendingTimer, ...] = ()
    history: tuple[StateChange, ...] = ()
    bucket_timer_ms: int | None = None
