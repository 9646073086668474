"""Which Kafka records a batch of a stream has read, from the stream's checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from stateward.contract import storage
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.offsets import Offsets


class BatchOffsets:
    """Reads the offset logs of all generations of one stream.

    Args:
        root: the folder of its checkpoints.
        topics: its data topics; None for all that it reads.
    """

    def __init__(self, root: str, topics: Sequence[str] | None = None) -> None:
        self._root = root.rstrip("/")
        self._topics = topics
        self._checkpoints: dict[str, Checkpoint] | None = None

    def of(self, generation: str, batch_id: int) -> dict[str, dict[str, list[int]]] | None:
        """Return by topic and partition the first offset of a batch and the one after its last.

        Args:
            generation: id of the streaming query.
            batch_id: the batch.

        Returns:
            None when the checkpoint is gone or no longer has the batch: it keeps the last hundred.
        """
        checkpoint = self._of_generation(generation)
        planned = checkpoint.planned(batch_id) if checkpoint else None
        if checkpoint is None or planned is None:
            return None
        if batch_id == 0:
            begin = checkpoint.initial_offsets()
        else:
            before = checkpoint.planned(batch_id - 1)
            if before is None:
                return None
            begin = before.offsets
        return self._between(begin, planned.offsets)

    def _between(self, begin: Offsets, end: Offsets) -> dict[str, dict[str, list[int]]]:
        found: dict[str, dict[str, list[int]]] = {}
        for topic, partitions in end.items():
            if self._topics is not None and topic not in self._topics:
                continue
            for partition, until in partitions.items():
                since = begin.get(topic, {}).get(partition, 0)
                if until > since:
                    found.setdefault(topic, {})[str(partition)] = [since, until]
        return found

    def _of_generation(self, generation: str) -> Checkpoint | None:
        if self._checkpoints is None:
            # One from before there were generations lies in the root itself.
            folders = [
                "",
                *(
                    name
                    for name in storage.list_names(self._root)
                    if generations.is_beside(name) and name != generations.POINTER
                ),
            ]
            found = [Checkpoint(f"{self._root}/{name}".rstrip("/")) for name in folders]
            self._checkpoints = {id_: one for one in found if (id_ := one.query_id()) is not None}
        return self._checkpoints.get(generation)
