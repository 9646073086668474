"""Which events are accepted, late or duplicate, and when they are folded. Times are plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from stateward.runtime.watermark.admission import Admission, Limits, Overrun, Seen, admit

LIMITS = Limits(lateness_ms=10, max_held=100)


@dataclass(frozen=True)
class Event:
    """An event with only an id and a time."""

    event_id: str
    event_ms: int


def judge(*arrivals: Event, watermark: int, **known: Any) -> Admission[Event]:
    settings: dict[str, Any] = {"held": (), "recent": (), "floor_ms": None, "limits": LIMITS, **known}
    return admit(arrivals=arrivals, watermark_ms=watermark, passed_ms=watermark, **settings)


def test_an_event_before_the_watermark_is_late_and_one_at_it_is_not() -> None:
    verdict = judge(Event("a", 99), Event("b", 100), watermark=100)
    alone = judge(Event("b", 100), watermark=100)

    assert [event.event_id for event in verdict.late] == ["a"]
    assert (verdict.accepted, verdict.duplicates) == (alone.accepted, alone.duplicates) == (1, 0)
    assert alone.overrun is None


def test_an_event_is_held_until_the_watermark_is_beyond_it() -> None:
    held = (Event("a", 100),)

    assert judge(watermark=100, held=held).ready == ()
    assert judge(watermark=101, held=held).ready == held


def test_ready_events_come_in_the_order_of_time_then_id() -> None:
    held = (Event("c", 5), Event("b", 5), Event("a", 7), Event("z", 1))

    assert [event.event_id for event in judge(watermark=8, held=held).ready] == ["z", "b", "c", "a"]
    assert judge(watermark=8, held=held[:2]).ready == (held[1], held[0])


def test_events_of_one_time_may_come_in_the_order_of_their_arrival() -> None:
    limits = Limits(lateness_ms=10, max_held=100, eager=True, as_they_come=True)
    arrivals = (Event("c", 100), Event("a", 100), Event("c", 100), Event("b", 99), Event("b", 99))

    verdict = judge(*arrivals, watermark=99, limits=limits)

    assert [event.event_id for event in verdict.ready] == ["b", "c", "a"]
    assert (verdict.accepted, verdict.duplicates) == (3, 2)


def test_a_held_id_is_a_duplicate_whatever_its_time() -> None:
    verdict = judge(Event("a", 120), watermark=100, held=(Event("a", 110),))

    assert (verdict.accepted, verdict.duplicates) == (0, 1)


def test_of_two_equal_ids_in_one_batch_the_earlier_event_is_accepted() -> None:
    verdict = judge(Event("a", 120), Event("a", 110), watermark=100)

    assert verdict.held == (Event("a", 110),)
    assert verdict.duplicates == 1


def test_a_folded_id_is_remembered_for_the_allowed_lateness_and_then_forgotten() -> None:
    recent = (Seen("a", 100),)

    at_horizon = judge(Event("a", 100), watermark=110, recent=recent)
    beyond = judge(Event("a", 100), watermark=111, recent=recent)
    folded = [judge(watermark=watermark, held=(Event("a", 100),)).recent for watermark in (110, 111)]

    assert (at_horizon.duplicates, at_horizon.recent) == (1, recent)
    assert (beyond.duplicates, len(beyond.late), beyond.recent) == (0, 1, ())
    assert folded == [recent, ()]


def test_an_early_fold_leaves_a_floor_below_which_arrivals_are_late() -> None:
    limits = Limits(lateness_ms=10, max_held=2)
    full = judge(Event("a", 101), Event("b", 102), Event("c", 103), watermark=100, limits=limits)
    after = judge(
        Event("x", 100), Event("y", 101), watermark=100, limits=limits, held=full.held, floor_ms=full.floor_ms
    )

    assert [event.event_id for event in full.ready] == ["a"]
    assert full.floor_ms == 101
    assert full.overrun == Overrun(folded_early=1, ids_forgotten=0, below_floor=0)
    assert after.overrun == Overrun(folded_early=1, ids_forgotten=0, below_floor=1)
    assert [event.event_id for event in after.late] == ["x"]
    assert after.accepted == 1


def test_the_floor_goes_when_the_watermark_has_reached_it() -> None:
    assert judge(watermark=100, floor_ms=101).floor_ms == 101
    assert judge(watermark=101, floor_ms=101).floor_ms is None


def test_remembered_ids_are_bounded() -> None:
    limits = Limits(lateness_ms=1000, max_held=3)
    held = tuple(Event(str(number), number) for number in range(3))
    recent = tuple(Seen(f"old-{number}", -number) for number in range(3, 0, -1))

    verdict = judge(watermark=100, held=held, recent=recent, limits=limits)

    assert [seen.event_id for seen in verdict.recent] == ["0", "1", "2"]
    assert verdict.overrun == Overrun(folded_early=0, ids_forgotten=3, below_floor=0)


def test_within_its_bounds_nothing_is_overrun() -> None:
    held = tuple(Event(str(number), 100 + number) for number in range(100))
    late = judge(Event("late", 99), watermark=100, held=held, floor_ms=101)

    assert (len(late.late), late.overrun) == (1, None), "it is late without the floor too"


@pytest.mark.parametrize("next_ms", [100, 105, 130, 1000])
def test_ids_that_the_next_watermark_forgets_are_not_kept(next_ms: int) -> None:
    """The next call judges as if all of them were."""
    arrivals = tuple(Event(f"e{at}", at) for at in range(100, 150, 5))
    recent = (Seen("r91", 91), Seen("r99", 99))
    given: dict[str, Any] = {"held": (), "floor_ms": None, "watermark_ms": 100, "limits": LIMITS}

    first = admit(recent=recent, arrivals=arrivals, passed_ms=next_ms, **given)

    folded = (*recent, *(Seen(one.event_id, one.event_ms) for one in first.ready))
    assert first.recent == tuple(seen for seen in folded if seen.event_ms >= next_ms - 10)
    again = judge(*arrivals, watermark=next_ms, held=first.held, recent=first.recent)
    assert again == judge(*arrivals, watermark=next_ms, held=first.held, recent=folded)


def test_an_id_that_the_next_watermark_forgets_is_a_duplicate_until_then() -> None:
    given: dict[str, Any] = {"held": (), "floor_ms": None, "watermark_ms": 100, "limits": LIMITS}

    found = admit(recent=(Seen("a", 95),), arrivals=(Event("a", 100),), passed_ms=1000, **given)

    assert (found.duplicates, found.accepted, found.recent) == (1, 0, ())


def test_ids_that_are_not_kept_do_not_count_against_the_bound() -> None:
    limits = Limits(lateness_ms=10, max_held=2)
    arrivals = tuple(Event(f"e{at}", at) for at in (100, 101, 102, 103))
    given: dict[str, Any] = {"held": (), "recent": (), "floor_ms": None, "watermark_ms": 100}

    found = admit(arrivals=arrivals, passed_ms=112, limits=limits, **given)

    assert (found.recent, found.overrun) == ((Seen("e102", 102), Seen("e103", 103)), None)
