"""Reads a streaming checkpoint without Spark.

Spark writes ``offsets/<n>`` before batch ``n`` runs and ``commits/<n>`` after it. Their format: a version
line, a line of JSON metadata, and one line of JSON per source.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from stateward.contract import storage
from stateward.runtime.checkpoint.batch_plan import Plan, from_json, offset_json, plan_from_json
from stateward.runtime.checkpoint.offsets import Offsets

# In the checkpoint's folder, so that it is part of every copy.
_EARLIER = "stateward/earlier.json"
SKIPPED = "stateward/skipped.json"
"""File of the jumps in a checkpoint."""
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class PlannedBatch:
    """The plan of a batch: end offsets, watermark (ms), and when it was planned by the driver's clock (ms).

    A batch that runs again after a crash has the same plan.
    """

    batch_id: int
    offsets: Offsets
    watermark_ms: int
    planned_ms: int
    plan: Plan = field(default_factory=lambda: Plan({}))

    @property
    def now_ms(self) -> int:
        """The time of the batch: the broker's, or the driver's in a plan before version 2."""
        return self.planned_ms if self.plan.now_ms is None else self.plan.now_ms


@dataclass(frozen=True)
class Jump:
    """A partition in which the stream skipped offsets.

    Attributes:
        topic: The topic.
        partition: Its number.
        begin: The next offset before the jump.
        end: The next offset after the jump; less than ``begin`` if the topic had been created again.
    """

    topic: str
    partition: int
    begin: int
    end: int


class Checkpoint:
    """A checkpoint folder at ``uri``."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")

    def query_id(self) -> str | None:
        """Id of the streaming query; None before its first start."""
        metadata = storage.read_json(f"{self._uri}/metadata")
        return None if metadata is None else str(metadata["id"])

    def last_planned(self) -> int:
        """The newest batch that was planned, or -1."""
        return self._newest("offsets")

    def last_committed(self) -> int:
        """The newest batch that was committed, or -1."""
        return self._newest("commits")

    def is_clean(self) -> bool:
        """Whether every planned batch is committed."""
        return self.last_planned() == self.last_committed()

    def planned(self, batch_id: int) -> PlannedBatch | None:
        """The plan of a batch, or None if it is not (or no longer) in the log.

        Raises:
            RuntimeError: The query has several scans, which do not end at the same offsets.
        """
        text = storage.read_text(f"{self._uri}/offsets/{batch_id}")
        if text is None:
            return None
        _, metadata, *sources = text.splitlines()
        ends, *others = [plan_from_json(json.loads(source)) for source in sources]
        if any(other != ends for other in others):
            raise RuntimeError(
                f"batch {batch_id} in {self._uri} was planned with different ends for the branches of one "
                "query, so its counts would not add up: start a new checkpoint, and report this"
            )
        found = json.loads(metadata)
        watermark_ms, planned_ms = (int(found[name]) for name in ("batchWatermarkMs", "batchTimestampMs"))
        return PlannedBatch(batch_id, ends.offsets, watermark_ms, planned_ms, ends)

    def state_partitions(self) -> int | None:
        """The number of state partitions; None before the first batch was planned."""
        text = storage.read_text(f"{self._uri}/offsets/{self.last_planned()}")
        found = None if text is None else json.loads(text.splitlines()[1])["conf"].get(_PARTITIONS)
        return None if found is None else int(found)

    def earlier(self) -> dict[str, int]:
        """The last batch of each earlier generation (by query id) that this one continues."""
        found = storage.read_json(f"{self._uri}/{_EARLIER}") or {}
        return {query_id: int(batch) for query_id, batch in found.items()}

    def write_earlier(self, generations: Mapping[str, int]) -> None:
        """Store the generations that this one continues."""
        storage.write_json(f"{self._uri}/{_EARLIER}", dict(generations))

    def jumps(self) -> list[Jump]:
        """The jumps over records that Kafka had lost; oldest first."""
        found = storage.read_json(f"{self._uri}/{SKIPPED}") or {"jumps": []}
        return [Jump(**jump) for jump in found["jumps"]]

    def write_jumps(self, jumps: Sequence[Jump]) -> None:
        """Replace the stored jumps."""
        storage.write_json(f"{self._uri}/{SKIPPED}", {"jumps": [asdict(jump) for jump in jumps]})

    def skipped(self, topics: Collection[str]) -> int:
        """The number of offsets that `consumed` includes but that were skipped."""
        return sum(jump.end - jump.begin for jump in self.jumps() if jump.topic in topics)

    def initial_offsets(self) -> Offsets:
        """The start offsets of the first batch; empty before it was planned."""
        text = storage.read_text(f"{self._uri}/sources/0/0")
        if text is None:
            return {}
        return parse_offsets(text)

    def write_initial_offsets(self, offsets: Offsets) -> None:
        """Store the start offsets of the first batch."""
        storage.write_json(f"{self._uri}/sources/0/0", offset_json(offsets))

    def _newest(self, folder: str) -> int:
        return max(
            (int(name) for name in storage.list_names(f"{self._uri}/{folder}") if name.isdigit()), default=-1
        )


def parse_offsets(text: str) -> Offsets:
    """Parse offsets from JSON."""
    return from_json(json.loads(text))


def consumed(initial: Offsets, now: Offsets, topic: str) -> int:
    """The number of offsets of ``topic`` between two sets of offsets; a new partition counts from 0."""
    begin = initial.get(topic, {})
    return sum(offset - begin.get(partition, 0) for partition, offset in now.get(topic, {}).items())
