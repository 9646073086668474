"""How long a stream stood still, and what that is put down to."""

from __future__ import annotations

from proof.chaos.progress import Gap, Hit, Progress, Standstill, cause_of, standstills
from tests.support.full import ci_full

# It is about what the software is tested with.
pytestmark = ci_full

DRIVER = Hit(10.0, "driver", "driver of a", "a")
BROKER = Hit(20.0, "broker", "kafka")


def seen(*looks: tuple[float, int, int | None]) -> list[tuple[float, float]]:
    progress = Progress("a")
    for look in looks:
        progress.see(*look)
    return [(gap.since_s, gap.until_s) for gap in progress.gaps]


def test_nothing_waits_so_nothing_stands_still() -> None:
    assert seen((1, 0, None), (2, 0, 0), (3, 5, 5), (4, 5, 5), (90, 5, 5)) == []


def test_a_gap_is_from_the_first_look_with_records_waiting_to_the_next_commit() -> None:
    assert seen((1, 5, 5), (2, 8, 5), (3, 9, 5), (4, 9, 9)) == [(2, 4)]


def test_a_commit_that_leaves_records_waiting_begins_the_next_gap() -> None:
    assert seen((1, 5, 0), (2, 8, 5), (3, 8, 8)) == [(1, 2), (2, 3)]


def test_a_new_driver_that_does_not_know_yet_or_knows_less_is_no_progress() -> None:
    assert seen((1, 5, 0), (2, 8, 5), (3, 8, None), (4, 8, 0), (5, 8, 5), (6, 8, 6)) == [(1, 2), (2, 6)]


def test_a_gap_that_is_open_ends_with_the_run() -> None:
    progress = Progress("a")
    progress.see(1, 5, 0)
    progress.finish(9)
    progress.finish(10)
    assert progress.gaps == [Gap("a", 1, 9)]


def test_a_gap_is_put_down_to_the_first_fault_in_it() -> None:
    assert cause_of(Gap("a", 9, 15), [DRIVER, BROKER]) == (DRIVER, True)
    assert cause_of(Gap("a", 9, 25), [DRIVER, BROKER]) == (DRIVER, False)


def test_else_to_the_last_one_before_it() -> None:
    assert cause_of(Gap("a", 30, 35), [DRIVER, BROKER]) == (BROKER, True)
    assert cause_of(Gap("a", 1, 2), [DRIVER, BROKER]) == (None, True)


def test_the_driver_of_another_stream_is_no_cause() -> None:
    assert cause_of(Gap("b", 9, 15), [DRIVER, BROKER]) == (None, True)
    assert cause_of(Gap("b", 19, 25), [DRIVER, BROKER]) == (BROKER, True)


def test_of_several_gaps_after_one_fault_the_longest_counts() -> None:
    gaps = [Gap("a", 1, 2), Gap("a", 9.5, 30), Gap("a", 30, 31), Gap("a", 31, 34), Gap("b", 19, 29)]
    assert standstills(gaps, [DRIVER, BROKER]) == (
        Standstill("a", "broker", 1, 3.0, 3.0, 3.0),
        Standstill("a", "driver", 1, 20.5, 20.5, None),
        Standstill("a", "none", 1, 1.0, 1.0, 1.0),
        Standstill("b", "broker", 1, 10.0, 10.0, 10.0),
    )
