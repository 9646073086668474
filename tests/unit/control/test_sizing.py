"""`control.sizing`: what a load needs, against the runs that the costs are from, and its rules."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.contract.state_care import MAX_PARTITION_BYTES
from stateward.control.sizing import (
    COPY_FACTORS,
    DRIVER_ROWS_PER_S,
    Load,
    SizingError,
    copy_factor,
    cpu_us,
    limit_of,
    size_of,
)

loads = st.builds(
    Load,
    events_per_s=st.floats(1, 1e7),
    event_bytes=st.integers(50, 10_000),
    keys=st.integers(1, 10**9),
    state_bytes=st.integers(20, 100_000),
    rows_per_event=st.floats(0, 2),
    batch_s=st.floats(0.5, 60),
    recovery_s=st.floats(30, 3_600),
)


@pytest.mark.parametrize(
    ("users", "per_batch", "event_bytes", "measured_us"),
    [
        (20_000, 200_000, 500, 18.3),
        (20_000, 200_000, 1_000, 22.2),
        (20_000, 200_000, 2_000, 27.9),
        (1_200_000, 100_000, 1_000, 44.8),
        (10_000_000, 100_000, 1_000, 41.5),
    ],
)
def test_the_cpu_of_an_event_is_within_a_seventh_of_each_measured_run(
    users: int, per_batch: int, event_bytes: int, measured_us: float
) -> None:
    """The runs of `benchmarks.sustained` in docs/benchmarks.md, without the broker."""
    load = Load(per_batch, event_bytes=event_bytes, keys=users, batch_s=1)
    assert cpu_us(load) == pytest.approx(measured_us, rel=1 / 7)


def test_the_copy_has_the_measured_sizes_and_no_jump_between() -> None:
    assert [copy_factor(size) for size, _ in COPY_FACTORS] == [factor for _, factor in COPY_FACTORS]
    assert copy_factor(20) == 1.7
    assert copy_factor(10**7) == 1.0
    assert 1.2 < copy_factor(400) < 1.4


@given(loads)
def test_the_cores_carry_the_load_and_recover_in_time(load: Load) -> None:
    size = size_of(load)
    assert size.cores * 1e6 > load.events_per_s * cpu_us(load)
    assert size.recovery_s <= math.ceil(load.recovery_s)
    assert size.partitions % size.cores == 0


@given(loads, st.floats(1.1, 100))
def test_more_events_never_need_less(load: Load, factor: float) -> None:
    more = replace(load, events_per_s=load.events_per_s * factor)
    assert size_of(more).cores >= size_of(load).cores


def test_a_recovery_shorter_than_a_restart_is_refused_with_a_remedy() -> None:
    with pytest.raises(SizingError, match=r"above the 13 s of a restart, found 10 s\. Give --recovery-s"):
        size_of(Load(1_000, recovery_s=10))


def test_the_driver_gives_way_by_its_rows_and_not_without_any() -> None:
    chatty, quiet = limit_of(Load(1_000, rows_per_event=10)), limit_of(Load(1_000, rows_per_event=0))
    assert chatty.events_per_s == DRIVER_ROWS_PER_S / 10
    assert math.isinf(quiet.events_per_s)


def test_a_batch_is_as_long_as_its_tasks_need_even_if_a_shorter_one_is_asked_for() -> None:
    assert size_of(Load(1, batch_s=0.3)).batch_s == 0.4
    assert size_of(Load(1, batch_s=2)).batch_s == 2


def test_a_large_state_has_more_partitions_than_cores() -> None:
    size = size_of(Load(1, keys=10**8, state_bytes=1_000, recovery_s=3_600))
    assert size.partitions >= 10**11 / MAX_PARTITION_BYTES
    assert size.partitions % size.cores == 0
