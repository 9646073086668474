"""What is usual for a table, from its own earlier validations, and the bounds that follow from it. Pure.

Only validations that passed count. With too few of them, or too few rows, the expectation is reported as not
judged, and holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ROW_COUNT = "expect_table_row_count_to_be_between"
DIVERGENCE = "expect_column_kl_divergence_to_be_less_than"
RATE, DISTRIBUTION = "rows_per_hour", "distribution"
_METRIC_OF = {ROW_COUNT: RATE, DIVERGENCE: DISTRIBUTION}
_FIELDS = {
    RATE: {"metric", "history", "hours", "at_least", "at_most"},
    DISTRIBUTION: {"metric", "history", "rows", "bins"},
}
_MOST_PAST = 200
# With fewer rows expected than this, none at all may be chance.
_FEWEST_EXPECTED = 20.0
# Weight of a value that was never seen, so that a single one is not an infinite divergence.
_UNSEEN = 0.001


class BaselineError(ValueError):
    """A baseline in a suite cannot be used; the text says what was expected."""


@dataclass(frozen=True)
class Baseline:
    """How an expectation gets its bounds from history.

    Attributes:
        metric: `rows_per_hour` or `distribution`.
        history: minimum number of earlier validations that passed.
        hours: minimum time over which rows are counted.
        at_least: lower bound, as a share of the usual number of rows; None for none.
        at_most: upper bound, likewise.
        rows: minimum number of rows for a distribution to be judged.
        bins: bounds between which numbers are counted; without bins, each value is counted.
    """

    metric: str
    history: int = 10
    hours: float = 1.0
    at_least: float | None = None
    at_most: float | None = None
    rows: int = 500
    bins: tuple[float, ...] = ()


@dataclass(frozen=True)
class PastValidation:
    """The findings of an earlier validation of the same table.

    Attributes:
        passed: whether every expectation held.
        rows: number of rows that its range added.
        seconds: from the commit before its range to its last one.
        distributions: by the name of the expectation, Great Expectations' partition and its rows.
    """

    version: int
    passed: bool
    rows: int
    seconds: float
    distributions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class BaselineBounds:
    """What an expectation is evaluated against: bounds from history.

    Attributes:
        type: of Great Expectations; another one than the suite's when nothing can be judged.
        kwargs: its arguments.
        words: what it is based on, as text.
    """

    type: str
    kwargs: dict[str, Any]
    words: str


def parse_baseline(entry: object, kind: str) -> Baseline:
    """Read the section `baseline` of an expectation of type `kind`.

    Raises:
        BaselineError: it cannot be used.
    """
    metric = _METRIC_OF.get(kind)
    if metric is None:
        raise BaselineError(f"only {sorted(_METRIC_OF)} have a baseline, found {kind}.")
    if not isinstance(entry, dict) or entry.get("metric") != metric or not set(entry) <= _FIELDS[metric]:
        raise BaselineError(
            f"baseline has `metric: {metric}` and of the others {sorted(_FIELDS[metric])}, found {entry!r}."
        )
    if metric == RATE and not {"at_least", "at_most"} & set(entry):
        raise BaselineError("baseline has at_least, at_most, or both; found neither.")
    return Baseline(**{**entry, "bins": tuple(entry.get("bins", ()))})


def baseline_bounds(
    name: str,
    baseline: Baseline,
    kwargs: Mapping[str, Any],
    now: PastValidation,
    earlier: Sequence[PastValidation],
) -> BaselineBounds:
    """Return what the expectation `name` is evaluated against.

    Args:
        name: the expectation.
        baseline: its section.
        kwargs: its arguments in the suite.
        now: the range to judge; only its rows and seconds are used.
        earlier: validations of the same table before it, the newest first.
    """
    if baseline.metric == RATE:
        return _usual_rate(baseline, now, earlier)
    return _usual_distribution(name, baseline, kwargs, now, earlier)


def _usual_rate(baseline: Baseline, now: PastValidation, earlier: Sequence[PastValidation]) -> BaselineBounds:
    needed = baseline.hours * 3600
    rows, seconds, rest = 0, now.seconds, list(earlier[:_MOST_PAST])
    while seconds < needed and rest:
        one = rest.pop(0)
        rows, seconds = rows + one.rows, seconds + one.seconds
    passed = [one for one in rest if one.passed and one.seconds > 0]
    over = sum(one.seconds for one in passed)
    if seconds < needed or len(passed) < baseline.history or over < needed:
        return _not_judged(
            f"not enough history: {len(passed)} of {baseline.history} validations that passed,"
            f" of {over / 3600:.3g} h"
        )
    expected = sum(one.rows for one in passed) / over * seconds
    if expected < _FEWEST_EXPECTED:
        return _not_judged(f"too few rows to tell: {expected:.3g} are usual in {seconds / 3600:.3g} h")
    bounds: dict[str, Any] = {}
    if baseline.at_least is not None:
        bounds["min_value"] = max(0, math.ceil(baseline.at_least * expected) - rows)
    if baseline.at_most is not None:
        bounds["max_value"] = max(0, math.floor(baseline.at_most * expected) - rows)
    words = f"usual in {seconds / 3600:.3g} h: {expected:.0f} rows, by {len(passed)} validations"
    return BaselineBounds(
        ROW_COUNT, bounds, words + (f"; {rows} came in the validations just before" if rows else "")
    )


def _usual_distribution(
    name: str,
    baseline: Baseline,
    kwargs: Mapping[str, Any],
    now: PastValidation,
    earlier: Sequence[PastValidation],
) -> BaselineBounds:
    if now.rows < baseline.rows:
        return _not_judged(f"too few rows to tell: {now.rows} of {baseline.rows}")
    found = [one.distributions[name] for one in earlier if one.passed and name in one.distributions]
    found = [one for one in found[:_MOST_PAST] if tuple(one.get("bins", ())) == baseline.bins]
    is_enough = len(found) >= baseline.history
    words = f"{len(found)} of {baseline.history} validations that passed"
    words = f"usual by {words}" if is_enough else f"not enough history: {words}"
    threshold = kwargs.get("threshold") if is_enough else None
    if baseline.bins:
        partition = _numbers(baseline.bins, found)
        return BaselineBounds(
            DIVERGENCE, {**kwargs, "threshold": threshold, "partition_object": partition}, words
        )
    counted = {
        "bucketize_data": False,
        "partition_object": _values(found) if is_enough else None,
        "tail_weight_holdout": _UNSEEN if is_enough else 0,
    }
    return BaselineBounds(DIVERGENCE, {**kwargs, "threshold": threshold, **counted}, words)


def _not_judged(why: str) -> BaselineBounds:
    return BaselineBounds(ROW_COUNT, {"min_value": 0}, why)


def _numbers(bins: tuple[float, ...], found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of histograms; a bin that was always empty gets a small weight."""
    sums = [0.0] * (len(bins) + 1)
    for one in found:
        low, high = one["tail_weights"]
        for place, weight in enumerate([low, *one["weights"], high]):
            sums[place] += weight * one["rows"]
    total = sum(sums) or 1.0
    raised = [weight / total + _UNSEEN for weight in sums]
    weights = [round(weight / sum(raised), 9) for weight in raised]
    return {"bins": list(bins), "weights": weights[1:-1], "tail_weights": [weights[0], weights[-1]]}


def _values(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    sums: dict[Any, float] = {}
    for one in found:
        for value, weight in zip(one["values"], one["weights"], strict=True):
            sums[value] = sums.get(value, 0.0) + weight * one["rows"]
    total = sum(sums.values()) or 1.0
    ordered = sorted((value, weight) for value, weight in sums.items() if weight)
    return {
        "values": [value for value, _ in ordered],
        "weights": [round(weight / total, 9) for _, weight in ordered],
    }
