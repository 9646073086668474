"""A checkout of another commit beside this one, in the same series: ratios of their figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Result = dict[str, Any]

# What is compared, the field of a result, and the digits that are shown.
_FIGURES = (
    ("events/s", "events_per_s", 0),
    ("s, with start", "total_s", 1),
    ("s, launch to first commit", "first_commit_s", 1),
    ("CPU µs/event", "cpu_us", 1),
    ("peak MiB", "peak_rss_mib", 0),
)


@dataclass(frozen=True)
class Spread:
    """A figure over the runs of a series."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of one or more values."""
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits: int = 0) -> str:
        """Return `median (least to most)`, or just the value when there is only one."""
        if self.least == self.most:
            return f"{self.median:,.{digits}f}"
        return f"{self.median:,.{digits}f} ({self.least:,.{digits}f} to {self.most:,.{digits}f})"


@dataclass(frozen=True)
class Pair:
    """A figure of both checkouts.

    Attributes:
        before: The other commit's.
        after: That of the checkout which measured.
        paired: After over before, turn by turn: both of a turn ran one after the other, so that it says more
            when the machine's speed drifts.
    """

    before: Spread
    after: Spread
    paired: Spread

    @property
    def of_medians(self) -> float:
        """After over before."""
        return self.after.median / self.before.median


def figure(result: Result, field: str) -> float | None:
    """A figure of a result; None where there is none, as in a run with a wrong output.

    Args:
        result: One line of `benchmarks.run`.
        field: One of the result's, or ``cpu_us``, the CPU microseconds per event.
    """
    if not result["correct"]:
        return None
    if field == "cpu_us":
        return float(result["cpu_s"]) / int(result["workload"]["events"]) * 1e6
    found = result.get(field)
    return None if found is None else float(found)


def pair(before: Sequence[Result], after: Sequence[Result], field: str) -> Pair | None:
    """Compare a figure over the turns in which both runs have it; None without such a turn."""
    earlier, later = (
        {one["run"]: value for one in runs if (value := figure(one, field)) is not None}
        for runs in (before, after)
    )
    turns = sorted(earlier.keys() & later.keys())
    if not turns:
        return None
    return Pair(
        Spread.of([earlier[turn] for turn in turns]),
        Spread.of([later[turn] for turn in turns]),
        Spread.of([later[turn] / earlier[turn] for turn in turns]),
    )


def paired_table(series: Sequence[Result]) -> list[str]:
    """Return the Markdown lines of all contestants that ran from both checkouts; none without one."""
    rows = []
    names = dict.fromkeys(str(result["contestant"]) for result in series)
    for name in (one for one in names if "@" in one):
        before, after = (
            [result for result in series if result["contestant"] == wanted]
            for wanted in (name, name.partition("@")[0])
        )
        for what, field, digits in _FIGURES:
            if found := pair(before, after, field):
                cells = (
                    name,
                    what,
                    found.before.text(digits),
                    found.after.text(digits),
                    f"{found.of_medians:.2f}",
                    found.paired.text(2),
                )
                rows.append(f"| {' | '.join(cells)} |")
    if not rows:
        return []
    commits = ", ".join(
        dict.fromkeys(f"`{one['commit']}`" for one in series if one.get("commit") and not one["before"])
    )
    return [
        f"The commit after `@` is *before*, {commits} is *after*, in the same turns. Ratios are after over "
        "before; the last is the median of those within a turn.",
        "",
        "| contestant | figure | before | after | ratio of medians | ratio in turns |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]
