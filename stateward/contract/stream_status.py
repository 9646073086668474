"""The status document, `status/<stream>.json`: a driver writes it, the control plane reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from stateward.contract.reading import Time, read_tolerantly
from stateward.contract.state_care import largest_over_median

DriverState = Literal["starting", "running", "waiting", "draining", "stopped", "refused", "failed"]

ENDED: frozenset[DriverState] = frozenset({"stopped", "refused", "failed"})
"""States after which a driver's process leaves by itself."""

LEAVING: frozenset[DriverState] = ENDED | {"draining"}
"""States in which a driver no longer takes new batches."""

OUTCOMES: Final = ("accepted", "dead", "late", "duplicates")
"""What becomes of a record; each has one of them."""

BOUNDS: Final = ("held_full", "folded_early", "below_floor", "ids_full", "ids_forgotten")
"""What the bounds of keys have cost (docs/state-bounds.md)."""


LEAST_LARGE_KEY_BYTES: Final = 100_000
"""A largest key below this is not compared with the others: it costs nothing."""

LEAST_BALANCED_BYTES: Final = 10_000_000
"""Partitions of a smaller state are not compared with each other."""


class BucketSize(NamedTuple):
    """The size of one bucket of a keyed stream, in JSON an array.

    Attributes:
        partition: The state partition that has it.
        keys: Number of its keys.
        bytes: Size of its keys and their states, as JSON.
        largest: The size of its largest key and state, rounded down by at most an eighth.
    """

    partition: int
    keys: int
    bytes: int
    largest: int


class Buckets(Struct, frozen=True):
    """The buckets of a keyed stream.

    Attributes:
        generation: The checkpoint.
        unknown: Number of buckets that have not been processed since their sizes are kept.
        sizes: By number, without empty buckets and unknown ones.
    """

    generation: int
    unknown: int
    sizes: Mapping[str, BucketSize]


class OperatorState(Struct, frozen=True):
    """What Spark has counted of a stateful operator in the last batch; None if its store does not count it.

    Attributes:
        name: Spark's name; a second operator of one name has a number after it.
        rows: Rows in its state.
        updated, removed: Rows that the batch has written and removed.
        memory_bytes, file_bytes: The store in memory, and RocksDB's files of the newest version.
        commit_ms: A task's time to commit its part.
        cache_hits, cache_misses: Blocks that RocksDB has found in its cache, or not.
    """

    name: str
    rows: int | None = None
    updated: int | None = None
    removed: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None
    commit_ms: float | None = None
    cache_hits: int | None = None
    cache_misses: int | None = None


class Cause(Struct, frozen=True):
    """The cause of what is wrong with a driver, or of its end.

    Attributes:
        kind: What it is about. A newer driver may have kinds that are not known here.
        lasting: Whether it stays until a person has done something.
    """

    kind: str
    lasting: bool


class ClusterRoom(Struct, frozen=True):
    """What a standalone cluster has free.

    Attributes:
        workers: Workers that are alive.
        cores, memory_mb: What they have.
        free_cores, free_memory_mb: What of it no application holds.
        fits: Whether one worker has room for an executor of the driver.
        held: The cores that each other application holds, by its name.
    """

    workers: int
    cores: int
    memory_mb: int
    free_cores: int
    free_memory_mb: int
    fits: bool
    held: Mapping[str, int] = {}

    def __str__(self) -> str:
        if not self.workers:
            return "the cluster has no worker"
        free = (
            f"the cluster has {self.free_cores} of {self.cores} cores and {self.free_memory_mb} of"
            f" {self.memory_mb} MiB free on {self.workers} {'worker' if self.workers == 1 else 'workers'}"
        )
        if self.fits:
            return f"{free}: an executor is about to start, or ends at once; its log on the worker says why"
        held = ", ".join(f"{name} ({cores})" for name, cores in sorted(self.held.items()))
        return f"{free}; cores are held by {held}" if held else free


class AwaitedExecutors(Struct, frozen=True):
    """What a driver waits for that has no executor, so that none of its tasks runs.

    Attributes:
        since: When it was first seen without one.
        cores, memory_mb: What one takes.
        room: What the cluster has free; None if that is not known.
        unknown: Why it is not.
    """

    since: Time
    cores: int
    memory_mb: int
    room: ClusterRoom | None = None
    unknown: str = ""

    def __str__(self) -> str:
        free = self.room or f"what the cluster has free is not known ({self.unknown})"
        cores = f"{self.cores} {'core' if self.cores == 1 else 'cores'}"
        return f"no executor, which takes {cores} and {self.memory_mb} MiB: {free}"


class Status(Struct, frozen=True):
    """What a driver last reported. A field is None until its value is known.

    Attributes:
        cause: None while nothing is wrong.
        phase: The step of the start that was reached, at `phase_at`.
        awaits: The executors that it waits for; None while it has one, or needs none.
        pid: The process to signal, which started `pid_started` seconds after the boot of `host`.
        spark_ui: Address of Spark's UI, as other hosts reach it.
        delivered: Records that Kafka delivered to this checkpoint, which counts over restarts of the driver,
            as do `without_record`, the four outcomes, `rows_out` and `bounds`.
        operators: What Spark has counted of each in the last batch.
        lag_by_topic: `lag_records` of each topic; None for a stream that reads one.
        state_keys: Live keys of a keyed stream; rows of a stream on Spark's own operators.
        live_bytes: Their size: of a keyed stream its keys and states as JSON, else RocksDB's files.
        largest_key_bytes: The size of the largest key and its state; None of a stream on Spark's own
            operators, which count no keys: `stateward state inspect` measures them.
        partition_bytes: `live_bytes` of each state partition that has keys, by its number; of a stream on
            Spark's own operators the files of its newest snapshots.
        key_growth, state_growth: By what factor the keys and their bytes have grown over the growth window,
            divided by that of the input, if the input has grown.
        buckets: None without buckets. While some are unknown, the fields from `state_keys` to
            `partition_bytes` are None.
    """

    stream: str
    run_id: str
    state: DriverState
    started_at: Time
    updated_at: Time
    message: str = ""
    cause: Cause | None = None
    phase: str | None = None
    phase_at: Time | None = None
    awaits: AwaitedExecutors | None = None
    epoch: int | None = None
    host: str | None = None
    pid: int | None = None
    pid_started: float | None = None
    python_pid: int | None = None
    spark_ui: str | None = None
    generation: int | None = None
    checkpoint: str | None = None
    batch_id: int | None = None
    last_batch_at: Time | None = None
    batch_duration_ms: int | None = None
    input_rows: int | None = None
    input_rows_per_s: float | None = None
    watermark: Time | None = None
    event_time_behind_ms: int | None = None
    dead_share: float | None = None
    late_share: float | None = None
    timestamps: str | None = None
    caught_up: bool | None = None
    lag_records: int | None = None
    lag_by_topic: Mapping[str, int] | None = None
    lag_change_per_s: float | None = None
    behind_since: Time | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    state_file_bytes: int | None = None
    state_commit_ms: float | None = None
    state_update_ms: float | None = None
    state_removal_ms: float | None = None
    memory_bytes: int | None = None
    delivered: int | None = None
    without_record: int | None = None
    accepted: int | None = None
    dead: int | None = None
    late: int | None = None
    duplicates: int | None = None
    bounds: Mapping[str, int] | None = None
    rows_out: int | None = None
    operators: tuple[OperatorState, ...] | None = None
    state_keys: int | None = None
    live_bytes: int | None = None
    largest_key_bytes: int | None = None
    partition_bytes: Mapping[str, int] | None = None
    buckets: Buckets | None = None
    key_growth: float | None = None
    state_growth: float | None = None
    version: int = 1

    @property
    def lasting_cause(self) -> Cause | None:
        """The cause of the driver's end, if another driver would end in the same way."""
        return self.cause if self.cause and self.cause.lasting and self.state in ENDED else None

    @property
    def bytes_per_key(self) -> float | None:
        """The mean size of a key and its state, bytes; None without keys."""
        return self.live_bytes / self.state_keys if self.state_keys and self.live_bytes is not None else None

    @property
    def largest_key_ratio(self) -> float | None:
        """The largest key's size over the mean of the others (`key_ratio`)."""
        return key_ratio(self.largest_key_bytes, self.state_keys, self.live_bytes)

    @property
    def partition_imbalance(self) -> float | None:
        """The largest partition over the median (`imbalance`)."""
        return imbalance((self.partition_bytes or {}).values())


def key_ratio(largest: int | None, keys: int | None, size: int | None) -> float | None:
    """Compare the largest key with the mean of the others; None below `LEAST_LARGE_KEY_BYTES`.

    Args:
        largest: Size of the largest key and its state, bytes.
        keys: The number of keys.
        size: The size of all of them, bytes.
    """
    if largest is None or largest < LEAST_LARGE_KEY_BYTES or size is None or not keys or keys < 2:
        return None
    return largest / max(1.0, (size - largest) / (keys - 1))


def imbalance(partitions: Collection[int]) -> float | None:
    """Compare the largest partition with the median; None for one or below `LEAST_BALANCED_BYTES`.

    Args:
        partitions: Their sizes, bytes.
    """
    if len(partitions) < 2 or sum(partitions) < LEAST_BALANCED_BYTES:
        return None
    # An empty partition counts as a byte, so that the ratio is a number.
    return largest_over_median([max(1, size) for size in partitions])


def status_from(document: Mapping[str, Any], origin: str = "status document") -> tuple[Status, list[str]]:
    """Read a status document of this release, the last one or the next one.

    Args:
        document: What was read. Drivers of an early release have `consumed` in place of `delivered`.
        origin: Where, for the errors.

    Returns:
        The status, and the fields that are not of their type; these count as not known.

    Raises:
        InvalidDocumentError: A field that every status has is missing or wrong.
    """
    return read_tolerantly(Status, {"delivered": document.get("consumed"), **document}, origin)
