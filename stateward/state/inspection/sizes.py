"""Size, growth and skew of a state. Pure.

The size formula::

    S = N_keys * (S_key + S_value) * F_versioning

``F_versioning`` is the number of bytes on disk per byte of live state. It has two measured parts: the log of
a keyed stream, which contains older states of a key beside the newest, and the files, which contain several
versions and are compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stateward.state.reader.measures import HOUR_MS

OK, WARN, CRITICAL = "ok", "warn", "critical"


@dataclass(frozen=True)
class SizeLimits:
    """Sizes of a stream's state on disk that need attention, bytes."""

    warn_bytes: int = 1_000_000_000
    critical_bytes: int = 5_000_000_000


@dataclass(frozen=True)
class Size:
    """The measured terms of the formula.

    Attributes:
        keys: Number of keys with a state.
        key_bytes: Total size of the keys, bytes.
        value_bytes: Total size of the newest states, bytes.
        store_bytes: Size of one version in the state store: keys and values as stored, bytes.
        disk_bytes: Size of the state store's files, all versions, bytes.
    """

    keys: int
    key_bytes: int
    value_bytes: int
    store_bytes: int
    disk_bytes: int

    @property
    def live_bytes(self) -> int:
        """``N_keys * (S_key + S_value)``."""
        return self.key_bytes + self.value_bytes

    @property
    def mean_key_bytes(self) -> float:
        """``S_key``; 0 without keys."""
        return self.key_bytes / self.keys if self.keys else 0.0

    @property
    def mean_value_bytes(self) -> float:
        """``S_value``; 0 without keys."""
        return self.value_bytes / self.keys if self.keys else 0.0

    @property
    def store_factor(self) -> float | None:
        """Stored bytes of one version per live byte; None without keys."""
        return self.store_bytes / self.live_bytes if self.live_bytes else None

    @property
    def file_factor(self) -> float | None:
        """Bytes on disk per stored byte of one version; None if the store is empty."""
        return self.disk_bytes / self.store_bytes if self.store_bytes else None

    @property
    def versioning(self) -> float | None:
        """``F_versioning``, the product of both; None without keys."""
        return self.disk_bytes / self.live_bytes if self.live_bytes else None


def skew(loads: Sequence[int]) -> float | None:
    """The largest load divided by the mean; 1 is even, None without a load."""
    total = sum(loads)
    return max(loads) * len(loads) / total if total else None


@dataclass(frozen=True)
class Sample:
    """Number of keys in a batch that was planned at ``at_ms`` (ms since 1970 UTC)."""

    batch_id: int
    at_ms: int
    keys: int


def spread(batches: Sequence[int], most: int) -> list[int]:
    """At most ``most`` of the batches, evenly spread, the first among them."""
    if most < 1 or not batches:
        return []
    step = max(1.0, len(batches) / most)
    return [batches[int(number * step)] for number in range(min(most, len(batches)))]


@dataclass(frozen=True)
class Growth:
    """The growth of the state over the sampled batches, extrapolated.

    Attributes:
        samples: By batch, oldest first.
        keys_per_hour: The slope of the line through them (least squares); None with fewer than two times.
        bytes_per_hour: The growth on disk, at the current bytes per key.
        level: The current level: ``ok``, ``warn`` or ``critical``.
        warn_at_ms: When the line crosses the limit (ms since 1970 UTC); None if it never does, or has.
        critical_at_ms: The same for the critical limit.
    """

    samples: tuple[Sample, ...]
    keys_per_hour: float | None
    bytes_per_hour: float | None
    level: str
    warn_at_ms: int | None
    critical_at_ms: int | None
    limits: SizeLimits = field(default_factory=SizeLimits)


def growth(samples: Sequence[Sample], size: Size, limits: SizeLimits) -> Growth:
    """Fit a line through the samples, and extrapolate it to the limits.

    Args:
        samples: By batch, oldest first; the last is that of ``size``.
        size: Size at the last sample.
        limits: Sizes on disk, bytes.
    """
    now_ms = samples[-1].at_ms if samples else 0
    per_hour = slope(samples)
    per_key = size.disk_bytes / size.keys if size.keys else 0.0
    bytes_per_hour = None if per_hour is None else per_hour * per_key
    return Growth(
        tuple(samples),
        per_hour,
        bytes_per_hour,
        level(size.disk_bytes, limits),
        crossing(size.disk_bytes, bytes_per_hour, limits.warn_bytes, now_ms),
        crossing(size.disk_bytes, bytes_per_hour, limits.critical_bytes, now_ms),
        limits,
    )


def slope(samples: Sequence[Sample]) -> float | None:
    """Keys per hour by least squares; None with fewer than two times."""
    if len({sample.at_ms for sample in samples}) < 2:
        return None
    mean_at = sum(sample.at_ms for sample in samples) / len(samples)
    mean_keys = sum(sample.keys for sample in samples) / len(samples)
    above = sum((sample.at_ms - mean_at) * (sample.keys - mean_keys) for sample in samples)
    below = sum((sample.at_ms - mean_at) ** 2 for sample in samples)
    return above / below * HOUR_MS


def level(size_bytes: int, limits: SizeLimits) -> str:
    """``ok``, ``warn`` or ``critical``; a size equal to a limit exceeds it."""
    if size_bytes >= limits.critical_bytes:
        return CRITICAL
    return WARN if size_bytes >= limits.warn_bytes else OK


def crossing(size_bytes: int, bytes_per_hour: float | None, limit_bytes: int, now_ms: int) -> int | None:
    """When a linearly growing size reaches a limit (ms since 1970 UTC); None if never, or already."""
    if not bytes_per_hour or bytes_per_hour <= 0 or size_bytes >= limit_bytes:
        return None
    return now_ms + round((limit_bytes - size_bytes) / bytes_per_hour * HOUR_MS)
