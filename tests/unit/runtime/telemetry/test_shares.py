"""Shares of dead and late records, over the last ten minutes of the broker's time."""

from __future__ import annotations

from stateward.runtime.telemetry.shares import Shares

MINUTE = 60_000


def totals(records: int, dead: int = 0, late: int = 0) -> dict[str, int]:
    return {"records": records, "dead": dead, "late": late}


def test_a_share_is_of_the_records_of_ten_minutes() -> None:
    shares = Shares()
    shares.add(0, totals(1_000_000, dead=900_000))
    assert shares.add(5 * MINUTE, totals(1_000_200, dead=900_010)) == {"dead_share": 0.05, "late_share": 0}
    assert shares.add(10 * MINUTE, totals(1_000_400, 900_010, 40)) == {"dead_share": 0.025, "late_share": 0.1}
    assert shares.add(15 * MINUTE, totals(1_000_600, 900_010, 40)) == {"dead_share": 0, "late_share": 0.1}
    assert shares.add(20 * MINUTE, totals(1_000_800, 900_010, 40)) == {"dead_share": 0, "late_share": 0}


def test_of_a_hundred_records_or_none() -> None:
    nothing = {"dead_share": None, "late_share": None}
    shares = Shares()
    assert shares.add(0, totals(50, dead=50)) == nothing
    assert shares.add(MINUTE, totals(149, dead=149)) == nothing
    assert shares.add(2 * MINUTE, totals(150, dead=150)) == {"dead_share": 1, "late_share": 0}
    assert shares.add(30 * MINUTE, totals(150, dead=150)) == nothing, "the topic is idle"
    assert shares.add(None, totals(500)) == nothing, "a stream without event time"


def test_a_restore_starts_over() -> None:
    shares = Shares()
    shares.add(0, totals(10_000, dead=10))
    assert shares.add(MINUTE, totals(5_000)) == {"dead_share": None, "late_share": None}
    assert shares.add(2 * MINUTE, totals(5_100, dead=1)) == {"dead_share": 0.01, "late_share": 0}
