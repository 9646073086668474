"""How large a state is, how fast it grows, and how evenly it lies. Pure.

The size formula::

    S = N_keys * (S_key + S_value) * F_versioning

``F_versioning`` is what a byte of live state takes on disk. It has two measured parts: the log of a keyed
stream, which holds older states of a key beside the newest, and the files, which hold several versions and
are compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

HOUR_MS = 3_600_000

OK, WARN, CRITICAL = "ok", "warn", "critical"


@dataclass(frozen=True)
class SizeLimits:
    """Sizes of a stream's state on disk at which somebody should look, bytes."""

    warn_bytes: int = 1_000_000_000
    critical_bytes: int = 5_000_000_000


@dataclass(frozen=True)
class Size:
    """The terms of the formula, measured.

    Attributes:
        keys: Keys that have a state.
        key_bytes: All their keys together, bytes.
        value_bytes: All their newest states together, bytes.
        store_bytes: What the state store holds of one version: keys and values as they are stored.
        disk_bytes: The files of the state store, all versions.
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
        """What the store holds of one version per live byte; None without keys."""
        return self.store_bytes / self.live_bytes if self.live_bytes else None

    @property
    def file_factor(self) -> float | None:
        """What the files take per byte of one version; None if the store is empty."""
        return self.disk_bytes / self.store_bytes if self.store_bytes else None

    @property
    def versioning(self) -> float | None:
        """``F_versioning``, the product of both; None without keys."""
        return self.disk_bytes / self.live_bytes if self.live_bytes else None


def skew(loads: Sequence[int]) -> float | None:
    """The largest load over the mean; 1 is even, None where there is none."""
    total = sum(loads)
    return max(loads) * len(loads) / total if total else None


@dataclass(frozen=True)
class Sample:
    """The keys of a state as of a batch that was planned at ``at_ms`` (since 1970 UTC)."""

    batch_id: int
    at_ms: int
    keys: int


@dataclass(frozen=True)
class Growth:
    """How the state has grown over the sampled batches, and where that leads.

    Attributes:
        samples: By batch, oldest first.
        keys_per_hour: The slope of the line through them (least squares); None of fewer than two times.
        bytes_per_hour: The same on disk, at the bytes per key of now.
        level: ``ok``, ``warn`` or ``critical``, as of now.
        warn_at_ms: When the line crosses the limit (ms since 1970 UTC); None if it never does, or has.
        critical_at_ms: Likewise.
    """

    samples: tuple[Sample, ...]
    keys_per_hour: float | None
    bytes_per_hour: float | None
    level: str
    warn_at_ms: int | None
    critical_at_ms: int | None
    limits: SizeLimits = field(default_factory=SizeLimits)


def growth(samples: Sequence[Sample], size: Size, limits: SizeLimits) -> Growth:
    """Fit a line through the samples, and follow it to the limits.

    Args:
        samples: By batch, oldest first; the last is the one that was measured.
        size: As of the last sample.
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
    """Keys per hour by least squares; None of fewer than two times."""
    if len({sample.at_ms for sample in samples}) < 2:
        return None
    mean_at = sum(sample.at_ms for sample in samples) / len(samples)
    mean_keys = sum(sample.keys for sample in samples) / len(samples)
    above = sum((sample.at_ms - mean_at) * (sample.keys - mean_keys) for sample in samples)
    below = sum((sample.at_ms - mean_at) ** 2 for sample in samples)
    return above / below * HOUR_MS


def level(size_bytes: int, limits: SizeLimits) -> str:
    """``ok``, ``warn`` or ``critical``; at a limit is beyond it."""
    if size_bytes >= limits.critical_bytes:
        return CRITICAL
    return WARN if size_bytes >= limits.warn_bytes else OK


def crossing(size_bytes: int, bytes_per_hour: float | None, limit_bytes: int, now_ms: int) -> int | None:
    """When a size that grows evenly comes to a limit (ms since 1970 UTC); None if it never does, or has."""
    if not bytes_per_hour or bytes_per_hour <= 0 or size_bytes >= limit_bytes:
        return None
    return now_ms + round((limit_bytes - size_bytes) / bytes_per_hour * HOUR_MS)
