"""The numbers of a stream's YAML that its supervision compares with. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from typing import Any, Self

from stateward.control.health.health import Limit


@dataclass(frozen=True)
class Thresholds:
    """When a driver counts as late, hung or hopeless; from the `health` and `restart` of its YAML.

    `measures` are the limits that are only reported, by the measure's name.
    """

    max_status_age: timedelta
    start_deadline: timedelta
    stop_deadline: timedelta
    kill_grace: timedelta
    max_commit_age: timedelta
    backoff: timedelta
    max_backoff: timedelta
    max_attempts: int
    window: timedelta
    measures: Mapping[str, Limit] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers, durations in seconds, for a trigger's arguments."""
        return {
            name: value.total_seconds() if isinstance(value, timedelta) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote, in this release or an earlier one: a trigger outlives an upgrade."""
        plain = {"max_attempts", "measures"}
        arguments = {
            one.name: timedelta(seconds=values[one.name]) for one in fields(cls) if one.name not in plain
        }
        measures = {name: Limit(**limit) for name, limit in values.get("measures", {}).items()}
        return cls(**arguments, max_attempts=values["max_attempts"], measures=measures)
