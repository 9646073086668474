"""The formulas of `inspect`: size, growth and its limits, skew, the checkpoint interval, timers, figures."""

from __future__ import annotations

import math

import pytest

from stateward.state.inspection.bounds import bounds_from
from stateward.state.inspection.sizes import (
    CRITICAL,
    OK,
    WARN,
    Sample,
    Size,
    SizeLimits,
    crossing,
    growth,
    level,
    skew,
    slope,
    spread,
)
from stateward.state.partitions.checkpoint_interval import (
    ASSUMED_MTBF_MS,
    DAY_MS,
    daly_ms,
    fixed_cost_ms,
    interval,
    loss,
    mean_time_between,
    young_ms,
)
from stateward.state.reader.measures import (
    BINS,
    HOUR_MS,
    BatchTime,
    LargeKey,
    Load,
    Timers,
    largest,
    loads,
    timers,
)

SIZE = Size(keys=100, key_bytes=1000, value_bytes=9000, store_bytes=20_000, disk_bytes=50_000)


def test_the_size_formula_gives_the_size_on_disk() -> None:
    assert SIZE.store_factor is not None and SIZE.file_factor is not None
    assert SIZE.versioning == 5.0 == SIZE.store_factor * SIZE.file_factor
    total = SIZE.keys * (SIZE.mean_key_bytes + SIZE.mean_value_bytes) * SIZE.versioning
    assert total == SIZE.disk_bytes


def test_without_keys_nothing_is_divided_by_them() -> None:
    empty = Size(0, 0, 0, 0, 4096)
    assert (empty.mean_key_bytes, empty.versioning, empty.store_factor, empty.file_factor) == (
        0,
        None,
        None,
        None,
    )


def test_skew_is_the_largest_over_the_mean_and_counts_empty_parts() -> None:
    assert skew([10, 10]) == 1.0
    assert skew([30, 0, 0]) == 3.0
    assert skew([0, 0]) is None
    assert skew([]) is None


def test_growth_follows_the_line_to_the_limits() -> None:
    samples = [Sample(n, n * HOUR_MS, 80 + 10 * n) for n in range(3)]
    found = growth(samples, SIZE, SizeLimits(warn_bytes=60_000, critical_bytes=100_000))
    assert found.keys_per_hour == pytest.approx(10)
    assert found.bytes_per_hour == pytest.approx(5000)  # 500 bytes on disk a key
    assert found.level == OK
    assert found.warn_at_ms == 2 * HOUR_MS + 2 * HOUR_MS
    assert found.critical_at_ms == 2 * HOUR_MS + 10 * HOUR_MS


@pytest.mark.parametrize("keys", [[100, 100, 100], [100, 80, 60]])
def test_a_state_that_does_not_grow_crosses_no_limit(keys: list[int]) -> None:
    samples = [Sample(n, n * HOUR_MS, count) for n, count in enumerate(keys)]
    found = growth(samples, SIZE, SizeLimits(60_000, 100_000))
    assert (found.warn_at_ms, found.critical_at_ms) == (None, None)


def test_one_batch_shows_no_growth() -> None:
    assert slope([Sample(0, 5, 10)]) is None
    assert slope([Sample(0, 5, 10), Sample(1, 5, 20)]) is None
    assert growth([Sample(0, 5, 10)], SIZE, SizeLimits()).keys_per_hour is None


def test_levels_and_crossings_at_the_limits() -> None:
    limits = SizeLimits(100, 200)
    assert [level(size, limits) for size in (99, 100, 199, 200)] == [OK, WARN, WARN, CRITICAL]
    assert crossing(100, 10.0, 100, 0) is None  # already reached
    assert crossing(99, None, 100, 0) is None
    assert SizeLimits() == SizeLimits(10**9, 5 * 10**9)


def test_youngs_interval() -> None:
    assert young_ms(cost_ms=50, mtbf_ms=10_000) == pytest.approx(1000)


def test_dalys_interval_corrects_youngs_and_ends_at_the_time_between_failures() -> None:
    cost_ms, mtbf_ms = 2000.0, 100_000.0
    share = cost_ms / (2 * mtbf_ms)
    expected = math.sqrt(2 * cost_ms * mtbf_ms) * (1 + math.sqrt(share) / 3 + share / 9) - cost_ms
    assert daly_ms(cost_ms, mtbf_ms) == pytest.approx(expected)
    assert daly_ms(cost_ms, mtbf_ms) == pytest.approx(young_ms(cost_ms, mtbf_ms), rel=0.1)
    assert daly_ms(200_000, 100_000) == 100_000
    # For a small cost the interval is where its share of lost time is least.
    best = young_ms(10, 1_000_000)
    assert loss(best, 10, 1_000_000) <= min(loss(best * f, 10, 1_000_000) for f in (0.5, 0.9, 1.1, 2))


def test_a_batchs_fixed_cost_is_that_of_the_batches_that_read_least() -> None:
    times = [
        BatchTime(n, n * 1000, n * 1000 + ms, rows) for n, (ms, rows) in enumerate([(900, 500), (200, 0)] * 4)
    ]
    assert fixed_cost_ms(times) == 200
    found = interval(times, mtbf_ms=None)
    assert (found.cost_ms, found.interval_ms, found.is_assumed, found.mtbf_ms) == (
        200,
        1000,
        True,
        ASSUMED_MTBF_MS,
    )
    assert found.loss == pytest.approx(0.2, rel=0.01)
    assert found.least_loss is not None and found.loss is not None and found.least_loss < found.loss


def test_without_measured_batches_no_interval_is_given() -> None:
    found = interval([], mtbf_ms=1000)
    assert (found.cost_ms, found.young_ms, found.daly_ms, found.loss) == (None, None, None, None)
    assert not found.is_assumed


def test_timers_are_counted_by_how_far_ahead_they_are() -> None:
    found = timers([100, 1000, 1001, 61_000, 10**12], watermark_ms=1000)
    assert (found.count, found.overdue, found.oldest_ms, found.next_ms, found.latest_ms) == (
        5,
        2,
        100,
        1001,
        10**12,
    )
    assert {name: n for (name, _), n in zip(BINS, found.bins, strict=True) if n} == {
        "overdue": 2,
        "1 min": 2,
        "later": 1,
    }


def test_timers_of_parts_add_up_to_those_of_the_whole() -> None:
    times = [5, 900, 1500, 99_999, 5_000_000]
    parts = timers(times[:2], 1000) + timers(times[2:], 1000) + Timers()
    assert parts == timers(times, 1000)


def test_loads_add_up_and_have_an_entry_for_what_is_empty() -> None:
    found = loads([Load(2, 1, 10, 100), Load(0, 2, 20, 200), Load(2, 3, 30, 300)], range(4))
    assert [(load.number, load.keys, load.value_bytes) for load in found] == [
        (0, 2, 200),
        (1, 0, 0),
        (2, 4, 400),
        (3, 0, 0),
    ]


def test_the_largest_keys_are_ordered_by_size_and_key() -> None:
    keys = [LargeKey(key, 0, 0, 1, size) for key, size in (("b", 5), ("a", 5), ("c", 9), ("d", 1))]
    assert [key.key for key in largest(keys, 3)] == ["c", "a", "b"]


def test_samples_are_spread_and_start_with_the_first() -> None:
    assert spread(list(range(100)), 4) == [0, 25, 50, 75]
    assert spread([3, 4], 4) == [3, 4]
    assert spread([], 4) == [] == spread([1], 0)


def test_the_mean_time_between_failures_comes_from_the_record() -> None:
    since_ms = 1_700_000_000_123
    assert mean_time_between(4, since_ms, since_ms + 8 * HOUR_MS) == (
        2 * HOUR_MS,
        "4 restarts after a failure in 8 h on record, since 2023-11-14 22:13:20 UTC",
    )
    quiet_ms, told = mean_time_between(0, since_ms, since_ms + 3 * DAY_MS)
    assert (quiet_ms, told.endswith("a lower bound")) == (3 * DAY_MS, True)
    too_short_ms, told = mean_time_between(0, since_ms, since_ms + HOUR_MS)
    assert (too_short_ms, told.startswith("assumed: ")) == (None, True)


def test_bounds_report_their_consequences() -> None:
    counts = {"held_full": 2, "folded_early": 1500, "below_floor": 3, "ids_full": 0, "ids_forgotten": 0}
    held, ids = bounds_from(10_000, counts)
    assert (held.limit, held.reached, held.cost) == (10_000, 2, "1,500 events folded early, 3 late for it")
    assert (ids.reached, ids.cost) == (0, "")
