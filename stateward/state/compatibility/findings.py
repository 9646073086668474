"""What a verdict says: how an old state stands to new code, and why. Pure."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple


class Level(StrEnum):
    """How an old state stands to new code, from harmless to impossible."""

    COMPATIBLE = "compatible"
    EVOLVES = "evolves"
    NEEDS_MIGRATION = "needs migration"
    INCOMPATIBLE = "incompatible"

    @property
    def rank(self) -> int:
        """0 for what is harmless, and so on."""
        return list(Level).index(self)


class Finding(NamedTuple):
    """One difference.

    Attributes:
        level: What it means for a start.
        what: What is different.
        before: As it is in the checkpoint.
        now: As code and YAML have it.
        consequence: What a start would do, or does.
        ways_out: What a person can do, the nearest first.
    """

    level: Level
    what: str
    before: str
    now: str
    consequence: str
    ways_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        """In words, one line."""
        text = f"{self.what}: was {self.before}, is {self.now}; {self.consequence}"
        return f"{text} (ways out: {'; or '.join(self.ways_out)})" if self.ways_out else text


class Verdict(NamedTuple):
    """The verdict: the worst level of its findings, which come with the worst first."""

    level: Level
    findings: tuple[Finding, ...] = ()

    @property
    def allows_start(self) -> bool:
        """Whether the code may run on the checkpoint."""
        return self.level in (Level.COMPATIBLE, Level.EVOLVES)

    def as_json(self) -> dict[str, Any]:
        """As plain JSON."""
        findings = [{**one._asdict(), "ways_out": list(one.ways_out)} for one in self.findings]
        return {"level": str(self.level), "findings": findings}


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """The verdict that findings come to."""
    ordered = sorted(findings, key=lambda finding: -finding.level.rank)
    return Verdict(ordered[0].level if ordered else Level.COMPATIBLE, tuple(ordered))
