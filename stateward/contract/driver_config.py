"""The resolved configuration, `control/<stream>.config.json`: written at a launch, read once by a driver."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

CONFIG_VERSION = 1
_CLOCKS = ("event", "processing")
_EMISSIONS = ("watermark", "eager")
_TICK_MODES = ("auto", "wall_clock", "record", "off")


class TickConfig(Struct, frozen=True):
    """How timeouts are kept going on a quiet topic: `auto`, `wall_clock`, `record` or `off`."""

    mode: str
    interval_ms: int

    def __post_init__(self) -> None:
        if self.mode not in _TICK_MODES:
            raise ValueError(f"expected mode to be one of {', '.join(_TICK_MODES)}, found {self.mode!r}")


class LeaseConfig(Struct, frozen=True):
    """Where the lease is, how long it holds, and how often it is renewed (ms)."""

    uri: str
    ttl_ms: int
    renew_ms: int

    def __post_init__(self) -> None:
        if self.renew_ms * 2 > self.ttl_ms:
            raise ValueError(f"ttl_ms {self.ttl_ms} must be at least twice renew_ms {self.renew_ms}")


class DriverConfig(Struct, frozen=True, kw_only=True):
    """One launch of one stream. Durations in milliseconds, places as URIs.

    `checkpoint_uri` is the root of the stream's generations in the document; a driver puts the current
    generation's folder in its place.
    """

    version: int = CONFIG_VERSION
    stream: str
    run_id: str
    bootstrap_servers: str
    only_topic: str | UnsetType = field(default=UNSET, name="topic")
    """That of a stream that reads one; one that lands several has `topics` in its place."""
    several_topics: tuple[str, ...] | UnsetType = field(default=UNSET, name="topics")
    topic_partitions: int
    create_topics: bool
    tick_topic: str
    starting_offsets: str
    max_records_per_batch: int
    trigger_interval_ms: int
    allowed_lateness_ms: int
    not_before: datetime
    max_ahead_ms: int
    max_record_bytes: int
    tick: TickConfig
    clock: str
    emission: str
    timeout_jitter_ms: int
    logic: Mapping[str, Any]
    state_partitions: int
    state_buckets: int
    state_cache_dir: str | None = None
    spark_conf: Mapping[str, str]
    lease: LeaseConfig
    checkpoint_uri: str
    status_uri: str
    control_uri: str
    tables: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, allowed in (("clock", _CLOCKS), ("emission", _EMISSIONS)):
            if (found := getattr(self, name)) not in allowed:
                raise ValueError(
                    f"stream {self.stream}: expected {name} to be one of {', '.join(allowed)}, "
                    f"found {found!r}: correct `{name}` in the stream's YAML"
                )
        if not self.topics:
            raise ValueError(f"topics: expected names of topics, found {list(self.topics)!r}")

    @property
    def topics(self) -> tuple[str, ...]:
        """The data topics."""
        if self.several_topics is not UNSET:
            return self.several_topics
        return () if self.only_topic is UNSET else (self.only_topic,)

    @property
    def topic(self) -> str:
        """The data topic of a stream that reads one; of several the first."""
        return self.topics[0]
