"""The settings of a stream's logic: a dataclass in the stream's `model.py`, which both floors read.

The control plane checks the section `logic` of the stream's YAML against the fields. A field whose name ends
in `_ms` is a duration: `gap_ms` is `gap: 30m` in the YAML, and a whole number of milliseconds in the driver's
configuration. A whole number has to be above zero, unless its type says otherwise (`Between`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
"""In milliseconds."""

UNITS = (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1))
"""The units of a duration in a YAML, largest first, each in milliseconds."""


@dataclass(frozen=True)
class Between:
    """Bounds of a number, inclusive, as in `Annotated[int, Between(1, 1000)]`."""

    minimum: float
    maximum: float


class SettingsError(ValueError):
    """Settings contradict each other.

    Attributes:
        expected: What was expected; the text continues after the word "expected".
    """

    def __init__(self, expected: str) -> None:
        super().__init__(f"expected {expected}")
        self.expected = expected


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """The settings of one stream.

    Attributes:
        reads_several_topics: Whether the stream may read more than one topic.
    """

    reads_several_topics: ClassVar[bool] = False

    @classmethod
    def of(cls, logic: Mapping[str, Any]) -> Self:
        """Read the section `logic` of a driver's configuration. Settings of another release are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in logic.items() if name in known})

    def check(self) -> None:
        """Check what several settings have to agree on, before the stream is deployed.

        Raises:
            SettingsError: They contradict each other.
        """

    def longest_ms(self) -> int:
        """How long a key can live after its last event (ms): by default the longest of the durations."""
        spans = [getattr(self, field.name) for field in fields(self) if field.name.endswith("_ms")]
        return max(spans, default=0)


def duration_text(duration_ms: int) -> str:
    """Write a duration as a YAML does, largest units first: `1h30m`."""
    text, rest = "", duration_ms
    for unit, unit_ms in UNITS:
        count, rest = divmod(rest, unit_ms)
        text += f"{count}{unit}" if count else ""
    return text if duration_ms > 0 else "0s"
