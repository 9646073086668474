"""Event times as milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.runtime.ingest.iso_times import Instants
from tests.support.streams.parsed_events import EPOCH


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01 00:00:01Z", 1000),
        ("1970-01-01T00:00:00.1Z", 100),
        ("1970-01-01T00:00:00.9999999Z", 999),
        ("1970-01-01T00:00:00.001999999Z", 1),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1969-12-31T23:59:59.0001Z", -1000),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T00:00:00-0230", 9_000_000),
        ("1970-01-01T00:00:00+1800", -64_800_000),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1900-01-01T00:00:00.0005Z", -2_208_988_800_000),
        ("9999-12-31T23:59:59-10:00", 253_402_336_799_000),
    ],
)
def test_an_instant_is_rounded_down_to_milliseconds(text: str, expected: int) -> None:
    instants = Instants()

    assert instants.milliseconds(text) == expected
    assert instants.milliseconds(text) == expected, "looked up"


@given(
    at=st.datetimes(timezones=st.just(UTC)),
    decimals=st.text("0123456789", max_size=9),
    offset=st.integers(-18 * 60, 18 * 60),
)
def test_an_instant_is_exact(at: datetime, decimals: str, offset: int) -> None:
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    text = f"{at.replace(tzinfo=None).isoformat()[:19]}{'.' if decimals else ''}{decimals}{zone}"
    whole = at.replace(microsecond=0) - EPOCH
    seconds = whole.days * 86_400 + whole.seconds - offset * 60 + Decimal(f"0.{decimals}0")

    assert Instants().milliseconds(text) == int((seconds * 1000).to_integral_value("ROUND_FLOOR"))
