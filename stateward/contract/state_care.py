"""What the care of a state on a schedule looks at, and its record: `control/<stream>.care.json`.

The verb `advise` measures a `Look`; the DAG `state_<stream>` keeps the looks, and what was changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median
from typing import Any, Final, Literal

from msgspec import Struct

from stateward.contract.reading import Time, read_as, require_version

CARE_VERSION: Final = 1

MAX_SKEW: Final = 1.5
"""The largest partition may be so many times the median."""

MAX_PARTITION_BYTES: Final = 512 * 1024 * 1024
"""The largest partition that is advised by default; one is loaded as a whole when a driver starts."""

ChangeKind = Literal["repartition", "rebucket", "migrate"]
Outcome = Literal["begun", "done", "failed", "refused"]


def largest_over_median(sizes: Collection[float]) -> float:
    """Return how uneven sizes are; 1 without any, infinite if the median is empty.

    With two the smaller one is the median: against their mean the larger could never be more than double.
    """
    if not any(sizes):
        return 1.0
    middle = min(sizes) if len(sizes) == 2 else median(sizes)
    return max(sizes) / middle if middle else float("inf")


class Look(Struct, frozen=True, kw_only=True):
    """One look at a state: how it is laid out, what it has to carry, and what is advised.

    Attributes:
        at: When.
        partitions: Number of state partitions.
        advised: The advised number, from the busiest hour of seven days.
        advised_today: The same from the busiest hour of the last day.
        keys: Number of keys.
        state_bytes: Size of the keys and their states.
        files_bytes: Size of the state's files, which an operation copies.
        largest_bytes: Size of the largest partition.
        median_bytes: Size of the median partition.
        records_per_s: Busiest hour of seven days, records/s.
        records_per_s_today: Busiest hour of the last day, records/s.
        cores: Number of cores that the stream has.
        batch_ms: Median duration of the batches that read the most; None if it could not be measured.
        buckets: Number of buckets of a keyed stream; None for Spark's own operators.
        advised_buckets: Another number that spreads the state evenly, where no number of partitions does.
        state_version: Version of the state's schema that the stream writes; None without one.
        old_versions: Older versions that states may still have.
        reasons: Why `advised` is advised, one sentence each.
    """

    at: Time
    partitions: int
    advised: int
    advised_today: int
    keys: int
    state_bytes: int
    files_bytes: int
    largest_bytes: int
    median_bytes: int
    records_per_s: float
    records_per_s_today: float
    cores: int
    batch_ms: float | None = None
    buckets: int | None = None
    advised_buckets: int | None = None
    state_version: int | None = None
    old_versions: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def skew(self) -> float | None:
        """The largest partition over the median; None while the median is empty."""
        return largest_over_median((self.median_bytes, self.largest_bytes)) if self.median_bytes else None


class Change(Struct, frozen=True, kw_only=True):
    """A change that was made, or that a person refused.

    Attributes:
        at: When it was begun, or refused.
        kind: What it was.
        before: The number before: of partitions, of buckets, or the oldest version.
        after: The number after.
        by: The person who approved or refused it; empty if the policy was `auto`.
        run: The DAG run that carried it out, `<dag id>/<run id>`; empty if it was refused.
        outcome: `begun` until its end is known.
        pause_s: How long the stream was stopped, seconds; None while that is unknown.
        files_bytes: Size of the files that it copied.
        state_bytes: Size of the keys and states that it changed; 0 in a record of an earlier release.
    """

    at: Time
    kind: ChangeKind
    before: int
    after: int
    by: str = ""
    run: str = ""
    outcome: Outcome = "begun"
    pause_s: float | None = None
    files_bytes: int = 0
    state_bytes: int = 0


class CareRecord(Struct, frozen=True, kw_only=True):
    """What is remembered between two runs; the oldest first."""

    stream: str
    looks: tuple[Look, ...] = ()
    changes: tuple[Change, ...] = ()
    version: int = CARE_VERSION


def care_record_from(document: Mapping[str, Any], origin: str) -> CareRecord:
    """Read a record.

    Raises:
        InvalidDocumentError: It is of another version, or a field is missing or of another type.
    """
    require_version(document, CARE_VERSION, origin, "delete it: looks and changes begin again")
    return read_as(CareRecord, document, origin)
