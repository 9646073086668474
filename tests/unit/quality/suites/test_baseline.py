"""What is usual for a table, by its own earlier validations."""

from __future__ import annotations

from typing import Any

import pytest

from stateward.quality.suites.baseline import (
    DIVERGENCE,
    ROW_COUNT,
    Baseline,
    BaselineBounds,
    BaselineError,
    PastValidation,
    baseline_bounds,
    parse_baseline,
)

HOUR = 3600.0
RATE = Baseline("rows_per_hour", history=3, at_least=0.2, at_most=5)


def past(rows: int, hours: float = 1.0, *, passed: bool = True, **distributions: Any) -> PastValidation:
    return PastValidation(1, passed, rows, hours * HOUR, distributions)


def rate(now: PastValidation, *earlier: PastValidation) -> BaselineBounds:
    return baseline_bounds("n", RATE, {}, now, earlier)


def test_a_row_count_is_held_against_the_usual_rate() -> None:
    bounds = rate(past(90, 2), *[past(100)] * 3)
    assert (bounds.type, bounds.kwargs) == (ROW_COUNT, {"min_value": 40, "max_value": 1000})
    assert bounds.words == "usual in 2 h: 200 rows, by 3 validations"


def test_a_failed_validation_never_says_what_is_usual() -> None:
    history = [past(100), past(1, passed=False), past(100), past(100)]
    assert rate(past(1), *history).kwargs["min_value"] == 20
    bounds = rate(past(1), *history[:3])
    assert bounds.kwargs == {"min_value": 0}
    assert bounds.words.startswith("not enough history: 2 of 3 validations that passed")


def test_a_short_range_is_judged_with_those_just_before_it_whether_they_passed_or_not() -> None:
    just_before = [past(5, 0.5, passed=False), past(10, 0.25)]
    bounds = rate(past(0, 0.25), *just_before, *[past(100)] * 3)
    assert bounds.kwargs == {"min_value": 5, "max_value": 485}
    assert "15 came in the validations just before" in bounds.words
    assert rate(past(0, 0.25), *just_before).kwargs == {"min_value": 0}


def test_where_few_rows_are_usual_none_may_be_chance() -> None:
    bounds = rate(past(0), *[past(3)] * 3)
    assert bounds.kwargs == {"min_value": 0}
    assert bounds.words == "too few rows to tell: 3 are usual in 1 h"


def test_numbers_are_held_against_the_mean_histogram() -> None:
    shape = Baseline("distribution", history=2, rows=10, bins=(0, 10, 100))
    seen = {"bins": [0, 10, 100], "weights": [0.75, 0.25], "tail_weights": [0.0, 0.0], "rows": 30}
    other = {**seen, "weights": [0.25, 0.75], "rows": 10}
    kwargs = {"column": "c", "threshold": 0.2}
    bounds = baseline_bounds(
        "n", shape, kwargs, past(10), [past(30, n=seen), past(10, n=other), past(9, passed=False, n=other)]
    )
    assert (bounds.type, bounds.kwargs["threshold"]) == (DIVERGENCE, 0.2)
    partition = bounds.kwargs["partition_object"]
    assert partition["weights"] == pytest.approx([0.625, 0.375], abs=0.002)
    assert sum(partition["weights"]) + sum(partition["tail_weights"]) == pytest.approx(1)
    assert all(partition["tail_weights"])  # a single value beyond the bins is no infinite divergence

    new = baseline_bounds(
        "n", shape, kwargs, past(10), [past(30, n=seen), past(10, n={**other, "bins": [0, 9, 100]})]
    )
    assert new.kwargs["threshold"] is None  # nothing fails, and what is found becomes history
    assert new.words == "not enough history: 1 of 2 validations that passed"


def test_values_are_held_against_their_usual_shares() -> None:
    shape = Baseline("distribution", history=1, rows=10)
    seen = {"values": ["b", "a", "c"], "weights": [0.4, 0.6, 0.0], "rows": 50}
    bounds = baseline_bounds("n", shape, {"column": "c", "threshold": 0.1}, past(10), [past(50, n=seen)])
    assert bounds.kwargs["partition_object"] == {"values": ["a", "b"], "weights": [0.6, 0.4]}
    assert bounds.kwargs["tail_weight_holdout"] > 0
    few = baseline_bounds("n", shape, {"column": "c", "threshold": 0.1}, past(9), [past(50, n=seen)])
    assert (few.type, few.words) == (ROW_COUNT, "too few rows to tell: 9 of 10")


@pytest.mark.parametrize(
    ("entry", "kind", "said"),
    [
        ({"metric": "rows_per_hour"}, ROW_COUNT, "at_least, at_most, or both"),
        ({"metric": "distribution"}, ROW_COUNT, "metric: rows_per_hour"),
        ({"metric": "distribution", "hours": 1}, DIVERGENCE, "metric: distribution"),
        ({"metric": "rows_per_hour"}, "expect_column_values_to_be_unique", "have a baseline"),
    ],
)
def test_a_baseline_that_cannot_be_used_says_why(entry: dict[str, Any], kind: str, said: str) -> None:
    with pytest.raises(BaselineError, match=said):
        parse_baseline(entry, kind)
    assert parse_baseline({"metric": "distribution", "bins": [1, 2]}, DIVERGENCE).bins == (1, 2)
