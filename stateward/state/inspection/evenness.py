"""Judges how even a state is: its largest key and its partitions, by the limits of a running stream. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stateward.contract.measures import MEASURES, OF_INSPECTION
from stateward.contract.stream_status import imbalance
from stateward.state.inspection.sizes import CRITICAL, OK, WARN
from stateward.state.reader.measures import Variable, bytes_by_number

MeasureLimits = Mapping[str, Mapping[str, float | None]]
"""`health.limits` by the measure's name: ``warn`` and ``critical``."""


@dataclass(frozen=True)
class Judged:
    """A measure of a state beside its limits, which are those of a running stream.

    Attributes:
        name: As in `health.limits`.
        value: None if the state is too small for it.
        warn, critical: The limits; None: none.
        level: ``ok``, ``warn`` or ``critical``.
        text: What it says, and the likely cause if it is above a limit.
    """

    name: str
    value: float | None
    warn: float | None
    critical: float | None
    level: str
    text: str

    @property
    def is_above(self) -> bool:
        """Whether it is above one of its limits."""
        return self.level != OK


def judged(data: Sequence[Variable], limits: MeasureLimits) -> tuple[Judged, ...]:
    """Judge the largest key of any variable, and the partitions of all of them together.

    Args:
        data: The variables that hold the states.
        limits: The stream's limits; a measure without an entry has its default ones.
    """
    ratios = [ratio for one in data if (ratio := one.largest_key_ratio) is not None]
    sizes = bytes_by_number(one.partitions for one in data)
    values = {
        "largest_key": max(ratios, default=None),
        # As a running stream counts them: an empty partition is not compared.
        "partition_imbalance": imbalance([size for size in sizes.values() if size]),
    }
    return tuple(_judge(name, values[name], limits.get(name)) for name in OF_INSPECTION)


def _judge(name: str, value: float | None, limits: Mapping[str, float | None] | None) -> Judged:
    measure = MEASURES[name]
    own = {"warn": measure.warn, "critical": measure.critical} if limits is None else limits
    warn, critical = own.get("warn"), own.get("critical")
    if value is None:
        return Judged(name, None, warn, critical, OK, "")
    text = measure.text.format(f"{value:,.1f}")
    if critical is not None and value > critical:
        return Judged(name, value, warn, critical, CRITICAL, f"{text}: {measure.cause}")
    if warn is not None and value > warn:
        return Judged(name, value, warn, critical, WARN, f"{text}: {measure.cause}")
    return Judged(name, value, warn, critical, OK, text)
