"""What a streaming checkpoint says about itself, read without Spark.

``offsets/<n>`` is written before batch ``n`` runs, ``commits/<n>`` after it. Their layout: a version line, a
line of JSON metadata, and one line of JSON per source.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from stateward.contract import storage
from stateward.runtime.kafka.batch_plan import Plan, from_json, offset_json, plan_from_json
from stateward.runtime.kafka.offsets import Offsets

# Beside what Spark keeps, so that it goes with every copy.
_EARLIER = "stateward/earlier.json"
SKIPPED = "stateward/skipped.json"
"""File in which a checkpoint keeps its jumps."""
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class PlannedBatch:
    """A batch as it was planned: where it ends in Kafka, its watermark, and when that was (ms).

    A batch that runs again after a crash is the same plan, so its time is the same too. ``planned_ms`` is
    when it was by the driver's clock.
    """

    batch_id: int
    offsets: Offsets
    watermark_ms: int
    planned_ms: int
    plan: Plan = field(default_factory=lambda: Plan({}))

    @property
    def now_ms(self) -> int:
        """The time by which the batch judges: the broker's, or the driver's in a plan before version 2."""
        return self.planned_ms if self.plan.now_ms is None else self.plan.now_ms


@dataclass(frozen=True)
class Jump:
    """A partition in which the stream went on elsewhere than after the last record that it had read.

    Attributes:
        topic: The topic.
        partition: Its number.
        begin: The next record that was to be read.
        end: The one that was read next; before ``begin`` if the topic had been made anew.
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
        """Id of the streaming query, the generation; None before its first start."""
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
        """What was planned for a batch, or None if it is not (or no longer) on record.

        Raises:
            RuntimeError: The query has several scans, and they do not end at the same offsets.
        """
        text = storage.read_text(f"{self._uri}/offsets/{batch_id}")
        if text is None:
            return None
        _, metadata, *sources = text.splitlines()
        ends, *others = [plan_from_json(json.loads(source)) for source in sources]
        if any(other != ends for other in others):
            raise RuntimeError(
                f"batch {batch_id} in {self._uri} was planned with different ends for the branches of one "
                "query, so its counts would not add up: begin a new checkpoint, and report this"
            )
        found = json.loads(metadata)
        watermark_ms, planned_ms = (int(found[name]) for name in ("batchWatermarkMs", "batchTimestampMs"))
        return PlannedBatch(batch_id, ends.offsets, watermark_ms, planned_ms, ends)

    def state_partitions(self) -> int | None:
        """How many partitions the state has; None before the first batch was planned."""
        text = storage.read_text(f"{self._uri}/offsets/{self.last_planned()}")
        found = None if text is None else json.loads(text.splitlines()[1])["conf"].get(_PARTITIONS)
        return None if found is None else int(found)

    def earlier(self) -> dict[str, int]:
        """The last batch of each generation (by query id) that this one goes on from; empty for the first."""
        found = storage.read_json(f"{self._uri}/{_EARLIER}") or {}
        return {query_id: int(batch) for query_id, batch in found.items()}

    def write_earlier(self, generations: Mapping[str, int]) -> None:
        """Keep which generations this one goes on from."""
        storage.write_json(f"{self._uri}/{_EARLIER}", dict(generations))

    def jumps(self) -> list[Jump]:
        """Where offsets were passed over on purpose, because Kafka had lost what was there; oldest first."""
        found = storage.read_json(f"{self._uri}/{SKIPPED}") or {"jumps": []}
        return [Jump(**jump) for jump in found["jumps"]]

    def write_jumps(self, jumps: Sequence[Jump]) -> None:
        """Keep which offsets were passed over, all that were."""
        storage.write_json(f"{self._uri}/{SKIPPED}", {"jumps": [asdict(jump) for jump in jumps]})

    def skipped(self, topics: Collection[str]) -> int:
        """By how many offsets `consumed` has to be less, for they were passed over and not read."""
        return sum(jump.end - jump.begin for jump in self.jumps() if jump.topic in topics)

    def initial_offsets(self) -> Offsets:
        """Where the first batch began; empty before it was planned."""
        text = storage.read_text(f"{self._uri}/sources/0/0")
        if text is None:
            return {}
        return parse_offsets(text)

    def write_initial_offsets(self, offsets: Offsets) -> None:
        """Keep where the first batch begins."""
        storage.write_json(f"{self._uri}/sources/0/0", offset_json(offsets))

    def _newest(self, folder: str) -> int:
        return max(
            (int(name) for name in storage.list_names(f"{self._uri}/{folder}") if name.isdigit()), default=-1
        )


def parse_offsets(text: str) -> Offsets:
    """Offsets from their JSON."""
    return from_json(json.loads(text))


def consumed(initial: Offsets, now: Offsets, topic: str) -> int:
    """How many offsets of ``topic`` lie between two points; an unknown partition counts from 0."""
    begin = initial.get(topic, {})
    return sum(offset - begin.get(partition, 0) for partition, offset in now.get(topic, {}).items())
