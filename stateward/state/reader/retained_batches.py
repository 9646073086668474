"""Which batches of a checkpoint can still be read, when they ran, and what their state takes on disk.

Read without Spark: ``commits/<n>`` is there for every batch that Spark retains the state of.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import fsspec

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint, PlannedBatch, consumed
from stateward.state.operation.errors import StateError
from stateward.state.partitions.checkpoint_interval import BatchTime

# A commit's file is younger than the next batch's plan by no more than this; else the files are copies,
# whose times say when they were copied.
_CLOCK_SLACK_MS = 2000


@dataclass(frozen=True)
class Retained:
    """The committed batches of a checkpoint whose state can be read, and the one that was asked for.

    Attributes:
        stream: The stream.
        uri: The checkpoint's folder.
        batches: All retained batches, oldest first.
        batch_id: The one to read.
        watermark_ms: The watermark of that batch (ms since 1970 UTC); 0 before the first tick.
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
        StateError: Nothing is committed there, or not that batch.
    """
    uri = checkpoint_uri.rstrip("/")
    batches = sorted(int(name) for name in storage.list_names(f"{uri}/commits") if name.isdigit())
    if not batches:
        raise StateError(
            f"stream {stream}: expected a checkpoint with a committed batch in {uri}, found none: "
            "start the stream, or name the folder of another generation or savepoint"
        )
    chosen = batches[-1] if batch_id is None else batch_id
    # Batches are committed one after the other; a gap is where another tool has written.
    plan = Checkpoint(uri).planned(chosen) if chosen in batches else None
    found = Retained(stream, uri, tuple(batches), chosen, 0, 0)
    if plan is None:
        raise found.error("expected a retained batch, found none of this number: ask for one of them")
    return Retained(stream, uri, tuple(batches), chosen, plan.watermark_ms, plan.planned_ms)


def is_retained(found: Retained, batch_id: int) -> bool:
    """Whether a batch can still be read: a stream that runs lets go of its oldest while others look."""
    return storage.exists(f"{found.uri}/commits/{batch_id}")


def newer_half(found: Retained) -> Retained:
    """Only the newer half of the batches, which a running stream does not let go of so soon.

    The batch that was asked for stays the oldest of them, if it is older.
    """
    middle = min(len(found.batches) // 2, found.batches.index(found.batch_id))
    return replace(found, batches=found.batches[middle:])


def plans(found: Retained) -> dict[int, PlannedBatch]:
    """The plans of the retained batches up to the one that is read, as far as they are on record."""
    checkpoint = Checkpoint(found.uri)
    wanted = [batch for batch in found.batches if batch <= found.batch_id]
    return {batch: plan for batch in wanted if (plan := checkpoint.planned(batch)) is not None}


def batch_times(found: Retained, planned: dict[int, PlannedBatch]) -> list[BatchTime]:
    """When batches were planned and committed, oldest first, by the times of their files.

    A batch whose times cannot be those of its run is left out: of a copied checkpoint that is all of them.
    """
    filesystem, path = fsspec.core.url_to_fs(found.uri)
    times: list[BatchTime] = []
    for batch, plan in planned.items():
        try:
            committed_ms = int(filesystem.modified(f"{path}/commits/{batch}").timestamp() * 1000)
        except (FileNotFoundError, NotImplementedError):
            continue
        after = planned.get(batch + 1)
        latest_ms = committed_ms if after is None else after.planned_ms + _CLOCK_SLACK_MS
        # Of the newest batch nothing says whether its file is a copy: the batches before it do.
        if plan.planned_ms <= committed_ms <= latest_ms and (after is not None or times):
            before = planned.get(batch - 1)
            times.append(BatchTime(batch, plan.planned_ms, committed_ms, _records(before, plan)))
    return times


def _records(before: PlannedBatch | None, plan: PlannedBatch) -> int:
    begin = {} if before is None else before.offsets
    return sum(consumed(begin, plan.offsets, topic) for topic in plan.offsets)


def repartitions(found: Retained) -> list[int]:
    """The retained batches that a repartition wrote: their number of partitions is not that before them."""
    numbers = {batch: partitions_of(found, batch) for batch in found.batches}
    return [batch for batch in found.batches if numbers.get(batch - 1, numbers[batch]) != numbers[batch]]


def partitions_of(found: Retained, batch: int) -> int | None:
    """How many partitions the state had as of a batch; None if that is not on record."""
    text = storage.read_text(f"{found.uri}/offsets/{batch}")
    if text is None:
        return None
    number = json.loads(text.splitlines()[1]).get("conf", {}).get("spark.sql.shuffle.partitions")
    return None if number is None else int(number)


def state_files(found: Retained) -> dict[tuple[int, int], int]:
    """Bytes of the state's files, all versions, by operator and partition."""
    filesystem, path = fsspec.core.url_to_fs(f"{found.uri}/state")
    sizes: dict[tuple[int, int], int] = {}
    if not filesystem.exists(path):
        return sizes
    root = path.rstrip("/") + "/"
    for name, info in filesystem.find(path, detail=True).items():
        operator, _, rest = str(name).removeprefix(root).partition("/")
        partition = rest.partition("/")[0]
        if operator.isdigit() and partition.isdigit():
            place = int(operator), int(partition)
            sizes[place] = sizes.get(place, 0) + int(info["size"] or 0)
    return sizes
