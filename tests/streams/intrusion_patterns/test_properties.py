"""What holds for any events of a source, in order and on arrival."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.intrusion_patterns.logic import IntrusionLogic
from spark_jobs.intrusion_patterns.model import (
    IntrusionState,
    Match,
    Pattern,
    SecurityEvent,
    Step,
)
from stateward.runtime.api.key_logic import advance, replay_oracle
from stateward.runtime.watermark.admission import Limits, order
from stateward.testing.declarations import timelines
from tests.streams.intrusion_patterns.test_logic import (
    END,
    LATENESS,
    SETS,
    SOURCE,
    SourceState,
    alerts_of,
    event,
    events_of,
    stream,
)

arrivals_of_a_source = timelines(event, "SSFFEo", until=60, most=24)


def by_definition(one: Pattern, events: Sequence[SecurityEvent]) -> list[tuple[str, ...]]:
    """The event ids of a pattern's alerts: every combination of events is tried, the latest counts."""
    found, before = list[tuple[str, ...]](), list[SecurityEvent]()
    for last in sorted(events, key=order):
        before = [*(other for other in before if last.event_ms - other.event_ms < one.horizon_ms), last]
        chains = [
            chain
            for chain in combinations(before, len(one.steps))
            if chain[-1] is last and tuple(step.kind for step in chain) == one.steps
        ]
        if chains:
            latest = max(chains, key=lambda chain: [order(step) for step in chain])
            found.append(tuple(step.event_id for step in latest))
            before = []
    return found


def check_bound(logic: IntrusionLogic, state: IntrusionState | None) -> None:
    """At most one match of each length below the whole, per pattern, and it is of that pattern."""
    if state is None:
        return
    lengths = {one.name: len(one.steps) for one in logic.patterns}
    kept = [(match.pattern, len(match.steps)) for match in state.matches]
    assert kept
    assert len(set(kept)) == len(kept)
    assert all(1 <= length < lengths[name] for name, length in kept)


@settings(max_examples=200, deadline=None)
@given(drawn=arrivals_of_a_source.map(lambda drawn: drawn[:14]), logic=st.sampled_from(SETS))
def test_the_alerts_are_those_of_the_definition(drawn: list[SecurityEvent], logic: IntrusionLogic) -> None:
    events = drawn
    alerts = alerts_of(replay_oracle(logic, SOURCE, events))

    for one in logic.patterns:
        assert [a.event_ids for a in alerts if a.pattern == one.name] == by_definition(one, events)


@settings(max_examples=200, deadline=None)
@given(drawn=arrivals_of_a_source, logic=st.sampled_from(SETS))
def test_on_arrival_in_any_order_every_alert_is_true_and_the_state_goes(
    drawn: list[SecurityEvent], logic: IntrusionLogic
) -> None:
    # The choices are unordered in time, so they arrive as they were drawn.
    limits = Limits(1000, 1000, eager=True)
    kept: SourceState = SourceState()
    rows = list[tuple[Any, ...]]()
    for one in drawn:
        turn = advance(logic, SOURCE, kept, [one], watermark_ms=0, limits=limits)
        kept = turn.kept
        rows += turn.rows
        check_bound(logic, kept.state)
    turn = advance(logic, SOURCE, kept, [], watermark_ms=END, limits=limits)
    assert turn.rows == []
    assert turn.kept.is_empty

    sent = {one.event_id: one for one in drawn}
    for pattern in logic.patterns:
        alerts = [alert for alert in alerts_of(rows) if alert.pattern == pattern.name]
        used = [event_id for alert in alerts for event_id in alert.event_ids]
        assert len(set(used)) == len(used), "an event is in two alerts of a pattern"
        for alert in alerts:
            steps = [sent[event_id] for event_id in alert.event_ids]
            assert tuple(step.kind for step in steps) == pattern.steps
            assert steps == sorted(steps, key=order)
            assert 0 <= alert.duration_ms < pattern.horizon_ms


@settings(max_examples=100, deadline=None)
@given(drawn=arrivals_of_a_source, logic=st.sampled_from(SETS))
def test_on_arrival_in_order_the_rows_are_those_of_the_oracle(
    drawn: list[SecurityEvent], logic: IntrusionLogic
) -> None:
    limits = Limits(LATENESS, 1000, eager=True)
    events = sorted(drawn, key=order)
    _, rows = stream(*((one.event_ms - LATENESS, [one]) for one in events), logic=logic, limits=limits)

    assert rows == replay_oracle(logic, SOURCE, events)


def test_on_arrival_a_step_that_comes_behind_the_next_one_is_lost() -> None:
    scan, failure, escalation = events_of("SFE")
    eager = Limits(LATENESS, 1000, eager=True)

    assert stream((0, [failure]), (0, [scan]), (0, [escalation]), limits=eager)[1] == []
    # An older scan does not take the place of the latest one.
    older, newer = event("S", 0), event("S", 5)
    kept, _ = stream((0, [newer]), (0, [older]), limits=eager)
    assert kept.state == IntrusionState((Match("sfe", (Step(5, "5"),)),))
