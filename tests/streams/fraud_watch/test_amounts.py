"""Amounts of payments as whole millionths."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.fraud_watch.amounts import to_micros
from spark_jobs.fraud_watch.model import (
    MICROS,
)


@pytest.mark.parametrize(
    ("amount", "micros"),
    [
        (0, 0),
        (12, 12_000_000),
        (0.1, 100_000),
        (12.34, 12_340_000),
        (0.0000004, 0),
        (0.0000005, 1),
        (2.5e-06, 3),
        (1.0000005, 1_000_001),
        (1.0000015, 1_000_002),
        (999_999_999_999.999999, 10**18),
        (1e12, 10**18),
        (123_456_789_012.3456, 123_456_789_012_345_600),
    ],
)
def test_an_amount_is_rounded_half_up(amount: float, micros: int) -> None:
    assert to_micros(amount) == micros


@settings(max_examples=300, deadline=None)
@given(amount=st.floats(0, 1e12) | st.decimals(0, 10_000_000, places=7).map(float))
def test_the_short_way_to_millionths_agrees_with_decimal_arithmetic(amount: float) -> None:
    exact = (Decimal(repr(amount)) * MICROS).quantize(Decimal(1), ROUND_HALF_UP)

    assert to_micros(amount) == exact
