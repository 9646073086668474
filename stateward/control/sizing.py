"""What a keyed stream needs: cores, memory, partitions, disk and files, from measured costs. Pure.

The constants are measured on two cores that share one; docs/sizing.md says by which run each was.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import asdict, dataclass
from typing import Any

from stateward.contract.state_care import MAX_PARTITION_BYTES

RECORD_US = 13.2
"""CPU per record, whatever its size and key: fetch, admission, shuffle, its share of the batch (µs)."""
KILOBYTE_US = 6.4
"""CPU per 1,000 bytes of a record: unpack and parse (µs)."""
KEY_US = 26.3
"""CPU per key that a batch changes: its state read, folded, written and logged (µs)."""
UTILISATION = 0.89
"""Share of the cores that a batch keeps busy: 1.78 of 2."""
BATCH_S = 0.25
"""Wall time of a batch without records (s)."""
TASK_S = 0.13
"""CPU of each partition of the state in a batch without records (s)."""
RESTART_S = 13.0
"""From SIGKILL to the first commit, with the local copies in place (s)."""
REBUILD_US = 21.0
"""CPU per key to build a local copy that is lost (µs)."""
DRIVER_ROWS_PER_S = 75_000
"""Rows that a driver collects and writes: those that tasks cannot write themselves."""
WORKERS_MB_PER_CORE, EXECUTOR_JVM_MB, DRIVER_MB = 450, 1_600, 2_000
"""Memory of the Python workers, of an executor's JVM with RocksDB, and of a driver with its Python."""
CHECKPOINT_FACTOR = 1.4
"""Bytes of the checkpoint for one byte of all keys and states."""
COPY_FACTORS = ((109, 1.7), (195, 1.4), (1_009, 1.2), (10_009, 1.1), (100_009, 1.0))
"""Bytes of a key with its state, and of the local copy for one byte of them."""
CORES_PER_EXECUTOR = 4
# `offsets` and `commits`.
_FILES_OF_A_BATCH = 2


class SizingError(ValueError):
    """A load that no number of cores can carry as asked."""


@dataclass(frozen=True)
class Load:
    """What a stream has to carry.

    Attributes:
        events_per_s: Its input at its peak.
        event_bytes: Size of a record.
        keys: Keys that have a state at the same time.
        state_bytes: Bytes of a key with its state.
        rows_per_event: Rows that the driver writes for each event: those of tables with a current row per
            key, and of tables that are sent to Kafka.
        batch_s: How long a batch is to take at most (s).
        recovery_s: How long after a crash it is to be at the head of the topic again (s).
    """

    events_per_s: float
    event_bytes: int = 1_000
    keys: int = 100_000
    state_bytes: int = 250
    rows_per_event: float = 0.25
    batch_s: float = 2.5
    recovery_s: float = 120.0


@dataclass(frozen=True)
class Limit:
    """A part of the design that does not grow with the number of hosts.

    Attributes:
        part: What it is.
        events_per_s: The input at which it gives way, all else as given; infinite where it never does.
        remedy: What to do there.
    """

    part: str
    events_per_s: float
    remedy: str


@dataclass(frozen=True)
class Size:
    """What the stream needs, for one driver.

    Attributes:
        cpu_us_per_event: CPU time of an event (µs).
        cores: The cores of all executors.
        executors: With `CORES_PER_EXECUTOR` each.
        executor_memory_mb: The memory of each, its Python workers included.
        driver_memory_mb: The memory of the driver.
        page_cache_mb: What the local copies would fill of each executor's page cache.
        partitions: State partitions, and the least for the topic.
        batch_s: The batch that it takes with them (s).
        checkpoint_bytes: The checkpoint.
        copy_bytes: The local copies of all executors.
        checkpoint_files_per_s: Files that are made in the checkpoint.
        files_per_day: Data files of one table, before it is compacted.
        recovery_s: From a crash to the head of the topic, with the local copies lost (s).
    """

    cpu_us_per_event: float
    cores: int
    executors: int
    executor_memory_mb: int
    driver_memory_mb: int
    page_cache_mb: int
    partitions: int
    batch_s: float
    checkpoint_bytes: int
    copy_bytes: int
    checkpoint_files_per_s: float
    files_per_day: int
    recovery_s: float

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


def size_of(load: Load) -> Size:
    """Compute what a load needs.

    Raises:
        SizingError: The recovery time is shorter than a restart takes.
    """
    cores = _cores(load)
    state = load.keys * load.state_bytes
    partitions = cores * max(1, math.ceil(state / MAX_PARTITION_BYTES / cores))
    batch_s = max(load.batch_s, _shortest_batch_s(load, cores, partitions))
    executors = math.ceil(cores / CORES_PER_EXECUTOR)
    copy = state * copy_factor(load.state_bytes)
    return Size(
        cpu_us_per_event=round(cpu_us(load), 1),
        cores=cores,
        executors=executors,
        executor_memory_mb=EXECUTOR_JVM_MB + min(cores, CORES_PER_EXECUTOR) * WORKERS_MB_PER_CORE,
        driver_memory_mb=DRIVER_MB,
        page_cache_mb=math.ceil(copy / executors / 1e6),
        partitions=partitions,
        batch_s=round(batch_s, 1),
        checkpoint_bytes=round(state * CHECKPOINT_FACTOR),
        copy_bytes=round(copy),
        checkpoint_files_per_s=round((partitions + _FILES_OF_A_BATCH) / batch_s, 1),
        files_per_day=round(86_400 / batch_s),
        recovery_s=round(_recovery_s(load, cores)),
    )


def limit_of(load: Load) -> Limit:
    """The part that gives way first, of those that do not grow with the number of hosts.

    What it costs a driver to plan and commit hundreds of partitions is not measured, and not here.
    """
    rows = DRIVER_ROWS_PER_S / load.rows_per_event if load.rows_per_event else math.inf
    remedy = "append these rows to a table instead, or split the topic over streams"
    return Limit("one driver merges rows, or sends them to Kafka", rows, remedy)


def cpu_us(load: Load) -> float:
    """CPU time of an event (µs): its share of its key is the larger, the fewer events of a batch have it."""
    events = load.events_per_s * load.batch_s
    # The expected number of different keys among so many events with uniform keys.
    keys = -load.keys * math.expm1(-events / load.keys)
    return RECORD_US + KILOBYTE_US * load.event_bytes / 1_000 + KEY_US * keys / events


def copy_factor(state_bytes: int) -> float:
    """Bytes of the local copy for one byte of a key with its state, between the measured sizes."""
    sizes = [size for size, _ in COPY_FACTORS]
    at = min(max(bisect_left(sizes, state_bytes), 1), len(sizes) - 1)
    (low, first), (high, last) = COPY_FACTORS[at - 1 : at + 1]
    share = min(max((math.log(state_bytes) - math.log(low)) / (math.log(high) - math.log(low)), 0.0), 1.0)
    return first + (last - first) * share


def _cores(load: Load) -> int:
    """The fewest cores that carry the input and are at the head of the topic again in time."""
    if load.recovery_s <= RESTART_S:
        raise SizingError(
            f"expected a recovery time above the {RESTART_S:g} s of a restart, found {load.recovery_s:g} s."
            " Give --recovery-s a larger number."
        )
    work = load.events_per_s * cpu_us(load) / 1e6
    rebuild = load.keys * REBUILD_US / 1e6
    # With c busy cores: c × (recovery - restart) = rebuild + work × recovery.
    busy = (rebuild + work * load.recovery_s) / (load.recovery_s - RESTART_S)
    return max(1, math.ceil(busy / UTILISATION))


def _recovery_s(load: Load, cores: int) -> float:
    work, busy = load.events_per_s * cpu_us(load) / 1e6, cores * UTILISATION
    return (busy * RESTART_S + load.keys * REBUILD_US / 1e6) / (busy - work)


def _shortest_batch_s(load: Load, cores: int, partitions: int) -> float:
    """A batch lasts its fixed part, and the time for the events that have come while it lasts."""
    share = load.events_per_s * cpu_us(load) / 1e6 / (cores * UTILISATION)
    return (BATCH_S + partitions * TASK_S / cores) / (1 - share)
