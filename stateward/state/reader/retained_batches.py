"""The batches of a checkpoint that can be read: their times, their plans, and the size of their state.

Needs no Spark: ``commits/<n>`` exists for every batch whose state Spark retains.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint, PlannedBatch, consumed
from stateward.state.errors import StateError
from stateward.state.reader.measures import BatchTime

# If a commit's file is younger than the next batch's plan by more than this, the files are copies, and their
# times are those of the copy.
_CLOCK_SLACK_MS = 2000


@dataclass(frozen=True)
class Retained:
    """The committed batches of a checkpoint whose state can be read, and the requested one.

    Attributes:
        stream: The stream.
        uri: The checkpoint's folder.
        batches: All retained batches, oldest first.
        batch_id: The requested batch.
        watermark_ms: Its watermark (ms since 1970 UTC); 0 before the first tick.
        planned_ms: When it was planned (ms since 1970 UTC).
    """

    stream: str
    uri: str
    batches: tuple[int, ...]
    batch_id: int
    watermark_ms: int
    planned_ms: int

    @property
    def first(self) -> int:
        """The oldest retained batch."""
        return self.batches[0]

    @property
    def last(self) -> int:
        """The newest committed batch."""
        return self.batches[-1]

    def error(self, problem: str) -> StateError:
        """An error about this batch."""
        return StateError(
            f"stream {self.stream}: batch {self.batch_id} of {self.uri}: {problem}; retained are the "
            f"batches {self.first} to {self.last}"
        )


def retained(checkpoint_uri: str, stream: str, batch_id: int | None = None) -> Retained:
    """The retained batches of a checkpoint.

    Args:
        checkpoint_uri: The checkpoint's folder.
        stream: Name of the stream, for errors.
        batch_id: The batch to read, or None for the newest.

    Raises:
        StateError: No batch is committed, or not the requested one.
    """
    uri = checkpoint_uri.rstrip("/")
    batches = sorted(int(name) for name in storage.list_names(f"{uri}/commits") if name.isdigit())
    if not batches:
        raise StateError(
            f"stream {stream}: expected a checkpoint with a committed batch in {uri}, found none: "
            "start the stream, or name the folder of another generation or savepoint"
        )
    chosen = batches[-1] if batch_id is None else batch_id
    # A gap in the committed batches means that another tool changed the checkpoint.
    plan = Checkpoint(uri).planned(chosen) if chosen in batches else None
    found = Retained(stream, uri, tuple(batches), chosen, 0, 0)
    if plan is None:
        raise found.error("expected a retained batch, found none with this number; choose one of them")
    return Retained(stream, uri, tuple(batches), chosen, plan.watermark_ms, plan.planned_ms)


def is_retained(found: Retained, batch_id: int) -> bool:
    """Whether a batch can still be read; a running stream removes its oldest batches."""
    return storage.exists(f"{found.uri}/commits/{batch_id}")


def newer_half(found: Retained) -> Retained:
    """Restrict to the newer half of the batches, which a running stream does not remove soon.

    If the requested batch is older, it becomes the oldest of them.
    """
    middle = min(len(found.batches) // 2, found.batches.index(found.batch_id))
    return replace(found, batches=found.batches[middle:])


def plans(found: Retained) -> dict[int, PlannedBatch]:
    """The plans of the retained batches up to the requested one, if they exist."""
    checkpoint = Checkpoint(found.uri)
    wanted = [batch for batch in found.batches if batch <= found.batch_id]
    return {batch: plan for batch in wanted if (plan := checkpoint.planned(batch)) is not None}


def batch_times(found: Retained, planned: dict[int, PlannedBatch]) -> list[BatchTime]:
    """The plan and commit times of batches, oldest first, from the times of their files.

    Batches whose file times are not those of their run are left out; in a copied checkpoint these are all.
    """
    filesystem, path = storage.filesystem_at(found.uri)
    times: list[BatchTime] = []
    for batch, plan in planned.items():
        try:
            committed_ms = int(filesystem.modified(f"{path}/commits/{batch}").timestamp() * 1000)
        except (FileNotFoundError, NotImplementedError):
            continue
        after = planned.get(batch + 1)
        latest_ms = committed_ms if after is None else after.planned_ms + _CLOCK_SLACK_MS
        # Only the batches before the newest show whether its file is a copy.
        if plan.planned_ms <= committed_ms <= latest_ms and (after is not None or times):
            before = planned.get(batch - 1)
            times.append(BatchTime(batch, plan.planned_ms, committed_ms, _records(before, plan)))
    return times


def _records(before: PlannedBatch | None, plan: PlannedBatch) -> int:
    begin = {} if before is None else before.offsets
    return sum(consumed(begin, plan.offsets, topic) for topic in plan.offsets)


def repartitions(found: Retained) -> list[int]:
    """The retained batches that a repartition wrote: the number of partitions changes with them."""
    numbers = {batch: partitions_of(found, batch) for batch in found.batches}
    return [batch for batch in found.batches if numbers.get(batch - 1, numbers[batch]) != numbers[batch]]


def partitions_of(found: Retained, batch: int) -> int | None:
    """Number of state partitions in a batch; None if unknown."""
    text = storage.read_text(f"{found.uri}/offsets/{batch}")
    if text is None:
        return None
    number = json.loads(text.splitlines()[1]).get("conf", {}).get("spark.sql.shuffle.partitions")
    return None if number is None else int(number)


def state_files(found: Retained) -> dict[tuple[int, int], int]:
    """Size of the state's files by operator and partition, all versions, bytes."""
    sizes: dict[tuple[int, int], int] = {}
    for name, size in storage.sizes_below(f"{found.uri}/state").items():
        operator, _, rest = name.partition("/")
        partition = rest.partition("/")[0]
        if operator.isdigit() and partition.isdigit():
            place = int(operator), int(partition)
            sizes[place] = sizes.get(place, 0) + size
    return sizes
