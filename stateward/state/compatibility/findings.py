"""Findings about the compatibility of a state with new code, and the verdict they lead to. Pure."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

Descriptor = dict[str, Any]
"""What a checkpoint holds, or code and YAML declare (`descriptor`)."""

REVERT = "put it back as it was"
START_OVER = "begin a new checkpoint, and fill its tables with `stateward backfill`"


class Level(StrEnum):
    """Compatibility of an old state with new code, from best to worst."""

    COMPATIBLE = "compatible"
    EVOLVES = "evolves"
    NEEDS_MIGRATION = "needs migration"
    INCOMPATIBLE = "incompatible"

    @property
    def rank(self) -> int:
        """Severity; 0 for `COMPATIBLE`."""
        return list(Level).index(self)


class Finding(NamedTuple):
    """One difference.

    Attributes:
        level: Compatibility.
        what: What differs.
        before: Value in the checkpoint.
        now: Value in code and YAML.
        consequence: What a start does, or would do.
        ways_out: Possible actions, the simplest first.
    """

    level: Level
    what: str
    before: str
    now: str
    consequence: str
    ways_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.what}: was {self.before}, is {self.now}; {self.consequence}"
        return f"{text} (ways out: {'; or '.join(self.ways_out)})" if self.ways_out else text


class Verdict(NamedTuple):
    """The worst level of the findings, and the findings, worst first."""

    level: Level
    findings: tuple[Finding, ...] = ()

    @property
    def allows_start(self) -> bool:
        """Whether the code may run on the checkpoint."""
        return self.level in (Level.COMPATIBLE, Level.EVOLVES)

    def as_json(self) -> dict[str, Any]:
        """The verdict as a JSON document."""
        findings = [{**one._asdict(), "ways_out": list(one.ways_out)} for one in self.findings]
        return {"level": str(self.level), "findings": findings}


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """The verdict on some findings."""
    ordered = sorted(findings, key=lambda finding: -finding.level.rank)
    return Verdict(ordered[0].level if ordered else Level.COMPATIBLE, tuple(ordered))
