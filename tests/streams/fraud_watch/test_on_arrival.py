"""The life of an account whose events act on arrival, in whatever order they come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.fraud_watch.model import (
    MICROS,
    SUSPICIOUS,
    WATCHING,
    FraudAlert,
    FraudSummary,
    PaymentEvent,
)
from stateward.runtime.api.key_logic import advance
from stateward.runtime.watermark.admission import Limits
from tests.streams.fraud_watch.test_machine import (
    END,
    KINDS,
    LATENESS,
    MACHINE,
    AccountState,
    event,
    events_of,
    shown,
    stream,
)


def _drawn(number: int, choice: tuple[int, str, int]) -> PaymentEvent:
    at, kind, amount = choice
    return PaymentEvent(f"{number * 7 % 41}", at, kind, amount * MICROS)


# Drawn as one list of small choices, because each draw costs more than a whole timeline.
arrivals_of_an_account = st.lists(
    st.tuples(
        st.integers(0, 150),
        st.sampled_from(["transaction"] * 5 + [kind for kind, _ in KINDS.values()]),
        st.sampled_from([0, 1, 100, 1_500, 5_000]),
    ),
    max_size=40,
).map(lambda choices: [_drawn(number, choice) for number, choice in enumerate(choices)])


@settings(max_examples=300, deadline=None)
@given(drawn=arrivals_of_an_account)
def test_on_arrival_in_any_order_no_event_is_lost_and_the_state_goes(drawn: list[PaymentEvent]) -> None:
    # The choices are unordered in time, so they arrive as they were drawn.
    limits = Limits(1000, 1000, eager=True)
    kept: AccountState = AccountState()
    rows = list[tuple[Any, ...]]()
    for one in drawn:
        turn = advance(MACHINE, "acc", kept, [one], watermark_ms=0, limits=limits)
        kept = turn.kept
        rows += turn.rows
        assert kept.state is None or len(kept.state.window) < MACHINE.settings.velocity_count
    turn = advance(MACHINE, "acc", kept, [], watermark_ms=END, limits=limits)
    rows += turn.rows

    assert turn.kept.is_empty
    summaries = [row for row in rows if isinstance(row, FraudSummary)]
    alerts = [row for row in rows if isinstance(row, FraudAlert)]
    assert sum(row.transaction_count for row in summaries) == sum(one.kind == "transaction" for one in drawn)
    assert sum(row.alert_count for row in summaries) == len(alerts)
    assert all(row.opened_ms <= row.closed_ms for row in summaries)
    assert len({row[0] for row in rows}) == len(rows)


def test_on_arrival_a_late_transaction_takes_its_place_in_the_window() -> None:
    eager = Limits(LATENESS, 1000, eager=True)
    kept, rows = stream((0, events_of("t.ttt")), (0, [event("t", 1)]), limits=eager)

    assert shown(rows) == ["4: SUSPICIOUS from watching, VELOCITY_COUNT, 5 of 500 (0 1 2 3 4)"]
    assert kept.state is not None
    assert kept.state.name == SUSPICIOUS


def test_on_arrival_a_transaction_from_before_the_window_only_counts() -> None:
    eager = Limits(1000, 1000, eager=True)
    kept, rows = stream((0, [event("T", 10)]), (0, [event("T", 0)]), limits=eager)

    assert rows == []
    assert kept.state is not None
    assert (kept.state.opened_ms, kept.state.transaction_count, len(kept.state.window)) == (0, 2, 1)


@pytest.mark.parametrize(("at", "name"), [(3, SUSPICIOUS), (4, WATCHING)])
def test_on_arrival_an_authentication_from_before_the_suspicion_does_not_clear_it(at: int, name: str) -> None:
    eager = Limits(LATENESS, 1000, eager=True)
    kept, _ = stream((0, events_of("....X")), (0, [PaymentEvent("a", at, "authenticated", 0)]), limits=eager)

    assert kept.state is not None
    assert (kept.state.name, kept.state.opened_ms) == (name, at)
