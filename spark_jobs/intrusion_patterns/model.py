"""Patterns, state and rows of ``intrusion_patterns``, versioned.

A change of a state's fields is a change of ``STATE_SCHEMA_VERSION``.

Bound per key: of each pattern of ``n`` steps at most one match of each length from 1 to ``n - 1``, so two
matches with three steps in all for a pattern of three. Beside it, as for every stream, ``max_held_events``
held events and as many remembered ids.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NamedTuple

from stateward.contract.columns import Col, Timestamp
from stateward.contract.stream_settings import MINUTE, StreamSettings

STATE_SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class IntrusionSettings(StreamSettings):
    """`horizon` replaces that of every pattern; see docs/streams/intrusion_patterns.md."""

    horizon_ms: int = 20 * MINUTE
    max_held_events: int = 10_000


@dataclass(frozen=True)
class Pattern:
    """What is looked for: events of these kinds, in this order, of one source.

    Attributes:
        name: Identity of the pattern, in the state and in the alerts. Other steps are another name.
        steps: The kinds of the events, at least two; a kind may be there more than once.
        horizon_ms: The last event is less than so many milliseconds after the first.
        remedy: What a person who reads the alert does first.

    Raises:
        ValueError: It has fewer than two steps, or its horizon is not above zero.
    """

    name: str
    steps: tuple[str, ...]
    horizon_ms: int
    remedy: str

    def __post_init__(self) -> None:
        if len(self.steps) < 2:
            raise ValueError(f"pattern {self.name}: expected two steps or more, found {len(self.steps)}")
        if self.horizon_ms <= 0:
            raise ValueError(f"pattern {self.name}: expected a horizon above 0 ms, found {self.horizon_ms}")


class SecurityEvent(NamedTuple):
    """One accepted event of a source.

    Attributes:
        event_id: Identity within the source.
        event_ms: Event time, milliseconds since 1970 UTC.
        kind: What happened; a kind that is in no pattern does not matter.
    """

    event_id: str
    event_ms: int
    kind: str


class Step(NamedTuple):
    """An event that is a step of a match; steps compare in the order in which events are folded."""

    event_ms: int
    event_id: str


class Match(NamedTuple):
    """The first steps of a pattern, found."""

    pattern: str
    steps: tuple[Step, ...]


class IntrusionState(NamedTuple):
    """What may still become an alert: per pattern and length the latest match, never none at all."""

    matches: tuple[Match, ...]


class IntrusionAlert(NamedTuple):
    """One complete pattern of one source.

    ``event_times`` are datetimes in UTC, because within an array `output_rows` does not take milliseconds.
    """

    alert_id: Annotated[
        str,
        Col(
            "Identity, from source, pattern and events: the same on every run",
            derived_from=("source_ip", "pattern", "event_ids", "event_times"),
        ),
    ]
    source_ip: Annotated[str, Col("The source", personal=True)]
    pattern: Annotated[str, Col("Name of the pattern", nullable=True)]
    started_ms: Annotated[int, Timestamp("Event time of the first step", nullable=True)]
    completed_ms: Annotated[int, Timestamp("Event time of the last step", nullable=True)]
    duration_ms: Annotated[int, Col("completed_at - started_at, milliseconds", nullable=True)]
    event_ids: Annotated[tuple[str, ...], Col("Ids of the events, in the order of the steps", nullable=True)]
    event_times: Annotated[tuple[datetime, ...], Col("Their event times, in the same order", nullable=True)]
    summary: Annotated[str, Col("What happened and what to do first, for a person", personal=True)]
