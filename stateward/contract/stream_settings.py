"""The settings of a stream's logic: a dataclass in the stream's `model.py`, which both floors read.

The control plane checks the section `logic` of the stream's YAML against the fields. A field whose name ends
in `_ms` is a duration: `gap_ms` is `gap: 30m` in the YAML, and a whole number of milliseconds in the driver's
configuration. A whole number has to be above zero, unless its type says otherwise (`Between`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

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


_LOOKED_UP = (str, int, float, bool, bytes)


@dataclass(frozen=True)
class Lookup:
    """A Delta table by which a stream's events are enriched (docs/lookups.md).

    Attributes:
        name: Its name in the section `lookups` of the stream's YAML, which says where the table is.
        key: The column by which it is looked up, unless the YAML names another.
        row: Named tuple of what the stream takes from a row, a column per field. Any column of a table may be
            null, so every field is `| None`. A time is milliseconds since 1970 UTC in an `int`, a date and a
            decimal number are a `str`.

    Raises:
        ValueError: A field has another type.
    """

    name: str
    key: str
    row: type[tuple[Any, ...]]

    def __post_init__(self) -> None:
        for field, hint in get_type_hints(self.row).items():
            kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
            if len(kinds) != 2 or NoneType not in kinds or not set(kinds) <= {NoneType, *_LOOKED_UP}:
                allowed = ", ".join(kind.__name__ for kind in _LOOKED_UP)
                raise ValueError(
                    f"lookup {self.name}, field {field}: expected one of {allowed}, with `| None`, "
                    f"found {hint}"
                )

    @property
    def kinds(self) -> dict[str, type[Any]]:
        """The type of each field, besides None."""
        hints = get_type_hints(self.row)
        return {name: next(k for k in get_args(hint) if k is not NoneType) for name, hint in hints.items()}


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """The settings of one stream.

    Attributes:
        reads_several_topics: Whether the stream may read more than one topic; a stream on Spark's own
            operators may not.
        lookups: The tables by which its events are enriched.
    """

    reads_several_topics: ClassVar[bool] = True
    lookups: ClassVar[tuple[Lookup, ...]] = ()

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
