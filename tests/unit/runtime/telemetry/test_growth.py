"""The growth of a state against that of its input, from the lines of the history."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stateward.runtime.driver.control import LaunchReason
from stateward.runtime.driver.history import History
from stateward.runtime.telemetry.growth import growth

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
Of = Callable[[int], int | None]
NONE = {"key_growth": None, "state_growth": None}


def constant(minute: int) -> int:
    return 50_000


def steady(minute: int) -> int:
    return 1000 * minute


def faster(minute: int) -> int:
    """Double the records in the last hour of five."""
    return 1000 * minute + 1000 * max(0, minute - 240)


def changed(factor: float, since: int = 300) -> Of:
    """Keys that change in one minute."""
    return lambda minute: int(50_000 * factor) if minute >= since else 50_000


def lines(keys: Of, delivered: Of, minutes: int = 300, **changes: Of) -> list[tuple[datetime, str]]:
    """A line a minute; ``changes`` are functions of the minute too."""
    found = []
    for minute in range(minutes + 1):
        line = {
            "generation": 1,
            "delivered": delivered(minute),
            "state_keys": keys(minute),
            "live_bytes": 2000 * (keys(minute) or 0),
            **{name: value(minute) for name, value in changes.items()},
        }
        found.append((BEGIN + minute * MINUTE, json.dumps(line)))
    return found


@pytest.mark.parametrize(
    ("keys", "delivered", "expected"),
    [
        (constant, steady, 1.0),
        (changed(2), steady, 2.0),
        (changed(2), faster, 1.0),
        (changed(4), faster, 2.0),
        (constant, faster, 0.5),
        (changed(0.5), steady, 0.5),
        (steady, steady, 1.25),
        (constant, lambda minute: 7, 1.0),
    ],
    ids=["even", "doubles", "as the input", "more than it", "less", "shrinks", "a new stream fills", "idle"],
)
def test_the_growth_of_the_state_is_divided_by_that_of_the_input(
    keys: Of, delivered: Of, expected: float
) -> None:
    now = BEGIN + 5 * HOUR
    assert growth(lines(keys, delivered), now, HOUR) == {"key_growth": expected, "state_growth": expected}


def test_keys_that_grow_are_not_more_keys() -> None:
    of_size = lines(constant, steady, live_bytes=lambda minute: 10**8 * (1 + minute // 300))
    assert growth(of_size, BEGIN + 5 * HOUR, HOUR) == {"key_growth": 1.0, "state_growth": 2.0}


def test_the_window_is_an_argument() -> None:
    doubles_20_minutes_ago = lines(changed(2, since=280), steady)
    now = BEGIN + 5 * HOUR
    assert growth(doubles_20_minutes_ago, now, HOUR / 2)["key_growth"] == 2.0
    assert growth(doubles_20_minutes_ago, now, HOUR / 4)["key_growth"] == 1.0


@pytest.mark.parametrize(
    "found",
    [
        lines(constant, steady, minutes=239),
        lines(constant, steady, generation=lambda minute: 1 + (minute > 100)),
        lines(constant, lambda minute: steady(minute % 200)),
        lines(constant, steady, state_keys=lambda minute: None),
        lines(constant, lambda minute: max(0, minute - 240)),
        lines(constant, steady)[:200] + lines(constant, steady)[-5:],
        [],
    ],
    ids=[
        "young",
        "a restore",
        "a counter set back",
        "the release before",
        "the first records",
        "a gap",
        "new",
    ],
)
def test_what_cannot_be_compared_is_unknown(found: list[tuple[datetime, str]]) -> None:
    now = found[-1][0] if found else BEGIN
    assert growth(found, now, HOUR) == NONE


def test_a_small_state_is_not_judged() -> None:
    small = lines(lambda minute: 4_000 * (1 + minute // 300), steady)
    assert growth(small, BEGIN + 5 * HOUR, HOUR) == NONE
    few = lines(lambda minute: 4_000, steady, live_bytes=lambda minute: 10_000_000)
    assert growth(few, BEGIN + 5 * HOUR, HOUR) == {"key_growth": None, "state_growth": 1.0}


def test_the_history_of_the_drivers_before_counts(tmp_path: Path) -> None:
    status: dict[str, Any] = {"run_id": "r", "state": "running", "generation": 1, "live_bytes": 10**8}

    def driver() -> History:
        uri = f"file://{tmp_path}/s.history.jsonl"
        return History(uri, reason=LaunchReason(), may_write=lambda: None, window=HOUR / 2)

    kept, found = driver(), {}
    for minute in range(200):
        if minute == 150:
            kept = driver()
        keys = 50_000 if minute < 190 else 100_000
        at = BEGIN + minute * MINUTE
        found = kept.note({**status, "state_keys": keys, "delivered": 10 * minute}, at)
        assert kept.note(status, at + timedelta(seconds=1)) == {}, "between two lines nothing changes"
    assert found == {"key_growth": 2.0, "state_growth": 1.0}
