"""State and rows of ``device_lifecycle``, versioned.

A change of a state's fields, or of the names of the modes, is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: one `DeviceState` with at most `MAX_ERROR_CODES` error codes, each as long as a text may be
(1,024 characters). Beside it, as for every stream, ``max_held_events`` held events and as many remembered
ids.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from stateward.contract.columns import Col, Timestamp
from stateward.contract.stream_settings import DAY, HOUR, StreamSettings

STATE_SCHEMA_VERSION = 1

# What a reading can say, and the modes of a device that does. A retired one has nothing kept.
RUNNING = "running"
IDLE = "idle"
ERROR = "error"
RETIRED = "retired"

# The other modes. Nothing is kept for an absent or forgotten device.
ABSENT = "absent"
UNKNOWN = "unknown"
OFFLINE = "offline"
FORGOTTEN = "forgotten"

STATUSES = (RUNNING, IDLE, ERROR, RETIRED)
ONLINE = (RUNNING, IDLE, ERROR, UNKNOWN)
FINAL = (RETIRED, FORGOTTEN)
MODES = (ABSENT, *ONLINE, OFFLINE, *FINAL)

# Kinds of alerts.
ALERT_OFFLINE = "OFFLINE"
ALERT_BACK_ONLINE = "BACK_ONLINE"

MAX_ERROR_CODES = 20
"""Largest number of error codes that are kept; of more, the newest."""

BY_TIMEOUT = ""
"""Takes the place of a reading's id in a row that a timeout wrote; it sorts before every id."""


@dataclass(frozen=True, kw_only=True)
class DeviceSettings(StreamSettings):
    """When a device is offline, and when it is forgotten; see docs/streams/device_lifecycle.md.

    Attributes:
        offline_after_ms: A device is offline after this long without a reading.
        forget_after_ms: A device that is offline for this long is forgotten.
        max_held_events: Readings of a device that wait for the watermark.
    """

    offline_after_ms: int = HOUR
    forget_after_ms: int = 30 * DAY
    max_held_events: int = 10_000

    def longest_ms(self) -> int:
        """How long after its last reading a device is forgotten: one timeout follows the other."""
        return self.offline_after_ms + self.forget_after_ms


class DeviceReading(NamedTuple):
    """One accepted reading of a device.

    Attributes:
        event_id: Identity within the device.
        event_ms: Event time, milliseconds since 1970 UTC.
        status: One of `STATUSES`, or any other text, which only shows that the device is alive.
        error_code: The error it reports, or None.
    """

    event_id: str
    event_ms: int
    status: str
    error_code: str | None = None


class DeviceState(NamedTuple):
    """The life of a device since it was first heard of; times in milliseconds since 1970 UTC.

    Attributes:
        mode: One of `ONLINE`, or ``offline``.
        said: The mode before the silence; the same as ``mode`` unless that is ``offline``.
        first_ms: Time of the first reading.
        last_ms: Time of the newest reading: the last heartbeat.
        last_event_id: Its id.
        changed_ms: When it came into this mode.
        runtime_ms: Time spent running, milliseconds.
        reading_count: Readings since the first.
        error_codes: The newest error codes, newest last.
        error_count: Readings with an error code since the first.
    """

    mode: str
    said: str
    first_ms: int
    last_ms: int
    last_event_id: str
    changed_ms: int
    runtime_ms: int = 0
    reading_count: int = 0
    error_codes: tuple[str, ...] = ()
    error_count: int = 0


class DeviceAlert(NamedTuple):
    """One device that went offline, or that came back."""

    alert_id: Annotated[
        str,
        Col("Identity, from the device and the reading: the same on every run", derived_from=("device_id",)),
    ]
    device_id: Annotated[str, Col("The device")]
    kind: Annotated[str, Col("OFFLINE or BACK_ONLINE", nullable=True)]
    raised_ms: Annotated[
        int, Timestamp("Event time: when the silence was too long, or of the next reading", nullable=True)
    ]
    last_heartbeat_ms: Annotated[int, Timestamp("Time of the last reading before the silence", nullable=True)]
    silence_ms: Annotated[int | None, Col("raised_at - last_heartbeat_at, milliseconds; null for OFFLINE")]
    previous_mode: Annotated[
        str, Col("Mode before the silence: running, idle, error or unknown", nullable=True)
    ]
    evidence: Annotated[
        tuple[str, ...], Col("Ids of the last reading, and of the one that ended the silence", nullable=True)
    ]


class DeviceStatus(NamedTuple):
    """One device as it is now."""

    device_id: Annotated[str, Col("The device")]
    mode: Annotated[str, Col("running, idle, error, unknown, offline; at the end retired or forgotten")]
    first_seen_ms: Annotated[int, Timestamp("Time of the first reading of this life of the device")]
    last_heartbeat_ms: Annotated[int, Timestamp("Time of the newest reading")]
    runtime_ms: Annotated[int, Col("Time spent running since first_seen_at, milliseconds", nullable=True)]
    reading_count: Annotated[int, Col("Readings since first_seen_at", nullable=True)]
    error_codes: Annotated[
        tuple[str, ...], Col("The newest 20 error codes since first_seen_at, newest last", nullable=True)
    ]
    error_count: Annotated[int, Col("Readings with an error code since first_seen_at", nullable=True)]
    changed_ms: Annotated[int, Timestamp("Event time at which it came into this mode")]
    updated_ms: Annotated[int, Timestamp("Event time of the newest reading, or at which a timeout was due")]
    updated_by: Annotated[str, Col("Id of that reading; empty for a timeout", nullable=True)]

    @property
    def version(self) -> tuple[int, str, int]:
        """The row with the larger version is the newer of two rows of a device."""
        return self.updated_ms, self.updated_by, self.reading_count
