"""Which version of a lookup's table each record was read with: where it begins, and the history of a stream.

A batch's plan has the versions, but plans are retained for some batches only. So the first batch with other
versions than the batch before has them in ``batch_counts``, with the offsets at which it begins.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stateward.runtime.checkpoint.batch_plan import (
    from_json,
    offset_json,
    versions_from_json,
    versions_json,
)
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.runtime.delta.lookup_tables import TableVersion

Versions = Mapping[str, TableVersion]
"""By the name of the lookup."""
_NONE: Versions = {}


@dataclass(frozen=True)
class LookupVersions:
    """Versions, and the offsets from which records are read with them."""

    begin: Offsets
    versions: Versions

    def to_json(self) -> dict[str, Any]:
        """The JSON object in ``batch_counts``."""
        return {"from": offset_json(self.begin), "versions": versions_json(self.versions)}


def versions_from(checkpoint: Checkpoint, batch_id: int) -> LookupVersions | None:
    """The versions that begin with a planned batch; None if the batch before had the same, or it has none."""
    batch, before = checkpoint.planned(batch_id), checkpoint.planned(batch_id - 1)
    if batch is None or not batch.plan.lookups:
        return None
    if before is not None and before.plan.lookups == batch.plan.lookups:
        return None
    begin = checkpoint.initial_offsets() if before is None else before.offsets
    return LookupVersions(begin, batch.plan.lookups)


class VersionHistory:
    """The versions with which a stream has read its records.

    Args:
        recorded: The texts of the column ``lookups``, in the order of the batches.
    """

    def __init__(self, recorded: Iterable[str]) -> None:
        documents = [json.loads(text) for text in recorded]
        self._begins = [from_json(document["from"]) for document in documents]
        self._versions = [versions_from_json(document["versions"]) for document in documents]
        self._of_partition: dict[tuple[str, int], list[int]] = {}

    def at(self, topic: str, partition: int, offset: int) -> Versions:
        """The versions with which a record was read.

        The first ones count for a record that was read before there were lookups; the last ones for a record
        that the stream has not read yet. Without any history there are none.
        """
        if not self._versions:
            return _NONE
        begins = self._of_partition.get((topic, partition))
        if begins is None:
            # A partition that was added later had no records before.
            begins = [begin.get(topic, {}).get(partition, 0) for begin in self._begins]
            self._of_partition[topic, partition] = begins
        return self._versions[max(0, bisect_right(begins, offset) - 1)]
