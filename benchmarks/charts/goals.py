"""The goals and what was measured of them, before and after, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from benchmarks.charts.goal_list import GOALS, Goal
from benchmarks.charts.pairs import Spread, figure

Result = dict[str, Any]
_NONE = "not measured"
# What two single results have in common when they are compared.
_SAME = ("stream", "variant", "workload", "emission", "rate", "lateness_ms", "partitions")


@dataclass(frozen=True)
class Measured:
    """A goal's figure for one commit.

    Attributes:
        commit: The driver's.
        value: In the unit of the goal, the median of the turns.
        turns: How many there are.
    """

    commit: str
    value: float
    turns: int


@dataclass(frozen=True)
class Found:
    """A goal's newest figures; None where nothing was measured."""

    before: Measured | None = None
    after: Measured | None = None


def goals(results: Mapping[str, Sequence[Result]], least_runs: int, known: Iterable[Goal] = GOALS) -> str:
    """Return the section of goals; empty if none was measured.

    Args:
        results: By program, in the order in which they were measured.
        least_runs: A series needs so many turns to count.
        known: The goals.
    """
    lines = [(goal, found(goal, results, least_runs)) for goal in known]
    if not any(line.before or line.after for _, line in lines):
        return ""
    text = [
        "### Goals",
        "",
        "*Before* is a checkout of another commit (`--before`, `--checkout`), *after* the one that measured; "
        "the ratio is after over before. The newest results that have a commit count; a figure is the median "
        f"of the turns of that commit, of `benchmarks.run` at least {least_runs}, both of the same series "
        "when it has both.",
        "",
        "| what | program | goal | before | after | ratio | commits | turns |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(goal, line) for goal, line in lines),
        "",
    ]
    return "\n".join(text)


def found(goal: Goal, results: Mapping[str, Sequence[Result]], least_runs: int) -> Found:
    """Return what was measured of a goal."""
    known = [one for one in results.get(goal.program, ()) if one.get("commit") and not one.get("peer")]
    return _of_series(goal, known, least_runs) if goal.program == "run" else _of_singles(goal, known)


def _row(goal: Goal, line: Found) -> str:
    before, after = (f"{one.value:,.{goal.digits}f}" if one else _NONE for one in (line.before, line.after))
    ratio = ""
    if line.before and line.after and line.before.value:
        ratio = f"{line.after.value / line.before.value:.2f}"
    commits = " to ".join(f"`{one.commit}`" for one in (line.before, line.after) if one)
    limit = f"{goal.sign} {goal.limit:,g}"
    turns = " and ".join(dict.fromkeys(str(one.turns) for one in (line.before, line.after) if one))
    return f"| {goal.what} | {goal.program} | {limit} | {before} | {after} | {ratio} | {commits} | {turns} |"


def _of_singles(goal: Goal, results: Sequence[Result]) -> Found:
    """Those of the newest commit of this checkout, and those of another in the same settings."""
    fitting = [one for one in results if _fits(goal, one)]
    after = _turns([one for one in fitting if not one["before"]])
    alike = [
        one for one in fitting if one["before"] and (not after or _settings(one) == _settings(after[-1]))
    ]
    return Found(*(_measured(goal, turns) for turns in (_turns(alike), after)))


def _turns(results: Sequence[Result]) -> list[Result]:
    """All results like the newest one, of the same commit."""
    return [
        one
        for one in results
        if one["commit"] == results[-1]["commit"] and _settings(one) == _settings(results[-1])
    ]


def _measured(goal: Goal, turns: Sequence[Result]) -> Measured | None:
    if not turns:
        return None
    value = Spread.of([_single(goal, one) for one in turns]).median
    return Measured(str(turns[-1]["commit"]), value, len(turns))


def _settings(result: Result) -> str:
    return json.dumps([result.get(name) for name in _SAME], sort_keys=True)


def _single(goal: Goal, result: Result) -> float:
    value = result[goal.figure] - (result[goal.less] if goal.less else 0)
    return float(value) * goal.scale


def _fits(goal: Goal, result: Result) -> bool:
    # A result of an earlier release may lack the figure.
    return (
        goal.figure in result
        and _has(result, goal.where)
        and all(result.get(name, 0) >= value for name, value in goal.least.items())
    )


def _has(result: Result, where: Mapping[str, Any]) -> bool:
    return all(_field(result, name) == value for name, value in where.items())


def _field(result: Result, name: str) -> Any:
    first, _, rest = name.partition(".")
    return result.get(first, {}).get(rest) if rest else result.get(first)


def _of_series(goal: Goal, results: Sequence[Result], least_runs: int) -> Found:
    """The newest series of this checkout, and before it the same series or the newest of another."""
    ordered = sorted(results, key=_series_name)
    series = [list(group) for _, group in groupby(ordered, _series_name)]
    newest: dict[bool, Measured] = {}
    for runs in series:
        for is_before in (True, False):
            if measured := _of_one(goal, runs, series, is_before, least_runs):
                newest[is_before] = measured
    return Found(newest.get(True), newest.get(False))


def _series_name(result: Result) -> str:
    return str(result["series"])


def _of_one(
    goal: Goal, runs: list[Result], series: list[list[Result]], is_before: bool, least_runs: int
) -> Measured | None:
    own = _runs(goal, runs, goal.contestant, is_before)
    value = _median(own, goal.figure, least_runs)
    if value is None or not own:
        return None
    commit = str(own[0]["commit"])
    if goal.over:
        # Both are of the same commit, unless the other is a peer, which no checkout changes.
        is_stream = goal.over == "stateward"
        divisor = _median(_runs(goal, runs, goal.over, is_before and is_stream), goal.figure, least_runs)
        return Measured(commit, value / divisor, len(own)) if divisor else None
    if goal.shorter:
        events = int(goal.where["workload.events"])
        short = [_runs(goal, others, goal.contestant, is_before, goal.shorter) for others in series]
        values = [_median(of, goal.figure, least_runs) for of in short if of and of[0]["commit"] == commit]
        less = next((one for one in reversed(values) if one is not None), None)
        return (
            None
            if less is None
            else Measured(commit, (value - less) / (events - goal.shorter) * goal.scale, len(own))
        )
    return Measured(commit, value * goal.scale, len(own))


def _runs(goal: Goal, runs: list[Result], contestant: str, is_before: bool, events: int = 0) -> list[Result]:
    """The runs of a contestant, of another number of events if one is given."""
    where = {**goal.where, **({"workload.events": events} if events else {})}
    return [
        one
        for one in runs
        if str(one["contestant"]).partition("@")[0] == contestant
        and one["before"] == is_before
        and _has(one, where)
    ]


def _median(runs: Sequence[Result], field: str, least_runs: int) -> float | None:
    values = [value for one in runs if (value := figure(one, field)) is not None]
    return Spread.of(values).median if values and len(runs) >= least_runs else None
