"""The resolved configuration a driver is started with (docs/architecture.md), read once and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stateward.contract import storage
from stateward.runtime.api.record_fields import Bounds
from stateward.runtime.driver.conditions import Condition, ConditionError
from stateward.runtime.keyed.admission import Limits

CONFIG_VERSION = 1


class ConfigError(ConditionError, ValueError):
    """The configuration document is missing, incomplete or not supported."""

    condition = Condition.CONFIGURATION_INVALID


@dataclass(frozen=True)
class TickConfig:
    """How timeouts are kept going on a quiet topic: ``auto``, ``wall_clock``, ``record`` or ``off``."""

    mode: str
    interval_ms: int


@dataclass(frozen=True)
class LeaseConfig:
    """Where the lease is, how long it holds, and how often it is renewed (ms)."""

    uri: str
    ttl_ms: int
    renew_ms: int


@dataclass(frozen=True)
class Config:
    """One launch of one stream. Durations in milliseconds, places as URIs.

    ``checkpoint_uri`` is the root of the stream's generations in the document; a driver puts the current
    generation's folder in its place (`generations`).
    """

    stream: str
    run_id: str
    bootstrap_servers: str
    topics: tuple[str, ...]
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
    state_cache_dir: str | None
    spark_conf: Mapping[str, str]
    lease: LeaseConfig
    checkpoint_uri: str
    status_uri: str
    control_uri: str
    tables: Mapping[str, str]

    @property
    def in_processing_time(self) -> bool:
        """Whether events have the time at which they are read, and timers follow the wall clock."""
        return self.clock == "processing"

    @property
    def topic(self) -> str:
        """The data topic of a stream that reads one; of several the first."""
        return self.topics[0]

    @property
    def bounds(self) -> Bounds:
        """Limits of a record and of its time."""
        not_before_ms = int(self.not_before.timestamp() * 1000)
        return Bounds(not_before_ms, self.max_ahead_ms, self.max_record_bytes)

    @property
    def limits(self) -> Limits:
        """How long a keyed stream waits for events, and how much it holds."""
        return Limits(
            self.allowed_lateness_ms,
            self.logic["max_held_events"],
            eager=self.emission == "eager" or self.in_processing_time,
            as_they_come=self.in_processing_time,
            jitter_ms=self.timeout_jitter_ms,
        )

    @property
    def watermark_delay_ms(self) -> int:
        """How far the watermark stays behind a tick: nothing is late in processing time."""
        return 0 if self.in_processing_time else self.allowed_lateness_ms


_CLOCKS = ("event", "processing")
_EMISSIONS = ("watermark", "eager")
_TICK_MODES = ("auto", "wall_clock", "record", "off")
_PLAIN = {
    "stream": str,
    "run_id": str,
    "bootstrap_servers": str,
    "topic_partitions": int,
    "create_topics": bool,
    "tick_topic": str,
    "starting_offsets": str,
    "max_records_per_batch": int,
    "trigger_interval_ms": int,
    "allowed_lateness_ms": int,
    "max_ahead_ms": int,
    "max_record_bytes": int,
    "clock": str,
    "emission": str,
    "timeout_jitter_ms": int,
    "logic": dict,
    "state_partitions": int,
    "state_buckets": int,
    "spark_conf": dict,
    "checkpoint_uri": str,
    "status_uri": str,
    "control_uri": str,
    "tables": dict,
}


def load_config(uri: str) -> Config:
    """Read and check the configuration at ``uri``.

    Raises:
        ConfigError: It is not there, not of this version, or a field is missing or of another type.
    """
    document = storage.read_json(uri)
    if document is None:
        raise ConfigError(
            f"no configuration at {uri}: a driver is started by the control plane, which writes it"
        )
    return parse_config(document, uri)


def parse_config(document: Mapping[str, Any], origin: str) -> Config:
    """Check a configuration document; ``origin`` is named in errors.

    Raises:
        ConfigError: See `load_config`.
    """
    if document.get("version") != CONFIG_VERSION:
        raise ConfigError(
            f"{origin}: expected version {CONFIG_VERSION}, found {document.get('version')!r}: "
            "start the driver with the same release as the control plane"
        )
    plain = {name: _field(document, name, kind, origin) for name, kind in _PLAIN.items()}
    for name, allowed in (("clock", _CLOCKS), ("emission", _EMISSIONS)):
        if plain[name] not in allowed:
            raise ConfigError(
                f"{origin}: stream {plain['stream']}: expected {name} to be one of {', '.join(allowed)}, "
                f"found {plain[name]!r}: correct `{name}` in the stream's YAML"
            )
    cache = document.get("state_cache_dir")
    return Config(
        **plain,
        topics=_topics(document, origin),
        state_cache_dir=None if cache is None else str(cache),
        not_before=_instant(document, "not_before", origin),
        tick=_tick(_field(document, "tick", dict, origin), origin),
        lease=_lease(_field(document, "lease", dict, origin), origin),
    )


def _topics(document: Mapping[str, Any], origin: str) -> tuple[str, ...]:
    """The data topics: ``topic`` of a stream that reads one, else ``topics``."""
    if "topics" not in document:
        return (_field(document, "topic", str, origin),)
    topics = _field(document, "topics", list, origin)
    if not topics or not all(isinstance(topic, str) for topic in topics):
        raise ConfigError(f"{origin}: topics: expected names of topics, found {topics!r}")
    return tuple(topics)


def _tick(document: Mapping[str, Any], origin: str) -> TickConfig:
    mode = _field(document, "mode", str, f"{origin}: tick")
    if mode not in _TICK_MODES:
        raise ConfigError(f"{origin}: tick.mode: expected one of {', '.join(_TICK_MODES)}, found {mode!r}")
    return TickConfig(mode, _field(document, "interval_ms", int, f"{origin}: tick"))


def _lease(document: Mapping[str, Any], origin: str) -> LeaseConfig:
    where = f"{origin}: lease"
    lease = LeaseConfig(
        _field(document, "uri", str, where),
        _field(document, "ttl_ms", int, where),
        _field(document, "renew_ms", int, where),
    )
    if lease.renew_ms * 2 > lease.ttl_ms:
        raise ConfigError(f"{where}: ttl_ms {lease.ttl_ms} must be at least twice renew_ms {lease.renew_ms}")
    return lease


def _field(document: Mapping[str, Any], name: str, kind: type, origin: str) -> Any:
    value = document.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        found = "nothing" if value is None else f"{value!r}"
        raise ConfigError(f"{origin}: {name}: expected {kind.__name__}, found {found}")
    return value


def _instant(document: Mapping[str, Any], name: str, origin: str) -> datetime:
    text = _field(document, name, str, origin)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{origin}: {name}: expected an ISO 8601 time, found {text!r}") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
