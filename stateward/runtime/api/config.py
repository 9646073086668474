"""The resolved configuration a driver is started with (docs/architecture.md), read once and typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateward.contract import storage
from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.reading import InvalidDocumentError, read_as, require_version
from stateward.contract.requests import CONFIG_VERSION, DriverConfig
from stateward.runtime.api.record_fields import Bounds
from stateward.runtime.watermark.admission import Limits


class ConfigError(ConditionError, ValueError):
    """The configuration document is missing, incomplete or not supported."""

    condition = Condition.CONFIGURATION_INVALID


class Config(DriverConfig, frozen=True):
    """The configuration, and what a driver derives from it."""

    @property
    def in_processing_time(self) -> bool:
        """Whether events have the time at which they are read, and timers follow the wall clock."""
        return self.clock == "processing"

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

    @property
    def target_batch_s(self) -> float:
        """How long a batch should last, seconds; 0 for any time.

        A batch that ends within its trigger interval waits for the next one, which takes no longer then.
        """
        return max(self.target_batch_ms, 2 * self.trigger_interval_ms) / 1000 if self.target_batch_ms else 0.0

    def lateness_of(self, topic: str) -> int:
        """The allowed lateness of a topic with a watermark of its own (ms)."""
        return self.lateness_by_topic_ms.get(topic, self.allowed_lateness_ms)

    @property
    def longest_lateness_ms(self) -> int:
        """The largest allowed lateness of the topics."""
        return max(map(self.lateness_of, self.topics))


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
    try:
        require_version(
            document, CONFIG_VERSION, origin, "start the driver with the same release as the control plane"
        )
        return read_as(Config, document, origin)
    except InvalidDocumentError as error:
        raise ConfigError(str(error)) from None
