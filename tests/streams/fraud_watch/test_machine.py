"""The life of an account, drawn as timelines of one character a tick.

    t  transaction of 100      a  authenticated          o  an event of another kind
    T  transaction of 3,000    r  review_confirmed       .  nothing
    X  transaction of 5,000    c  case_closed

Window 10 ticks, authentication within 4, idle after 30, review for 50. Every case goes through the streaming
path and through the oracle; both must agree. Event ids are the ticks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.fraud_watch import transitions
from spark_jobs.fraud_watch.machine import FraudMachine
from spark_jobs.fraud_watch.model import (
    MAX_EVIDENCE,
    MAX_MICROS,
    MICROS,
    FraudAlert,
    FraudSettings,
    FraudState,
    FraudSummary,
    Payment,
    PaymentEvent,
)
from spark_jobs.fraud_watch.transitions import TRANSITIONS, Transition
from stateward.runtime.api.key_logic import KeyState, advance, replay_oracle, row_id
from stateward.runtime.watermark.admission import Limits

AccountState = KeyState[FraudState, PaymentEvent]

LATENESS = 6
LIMITS = Limits(LATENESS, 1000)
END = 10**9
SETTINGS = FraudSettings(
    velocity_window_ms=10, authentication_window_ms=4, idle_ms=30, review_ms=50, safety_ms=100
)
MACHINE = FraudMachine(SETTINGS)
HASTY = FraudMachine(replace(SETTINGS, safety_ms=20))
EVEN = FraudMachine(replace(SETTINGS, safety_ms=SETTINGS.idle_ms))
KINDS = {
    "t": ("transaction", 100),
    "T": ("transaction", 3_000),
    "X": ("transaction", 5_000),
    "a": ("authenticated", 0),
    "r": ("review_confirmed", 0),
    "c": ("case_closed", 0),
    "o": ("card_renewed", 0),
}


def event(mark: str, at: int) -> PaymentEvent:
    kind, amount = KINDS[mark]
    return PaymentEvent(str(at), at, kind, amount * MICROS)


def events_of(timeline: str) -> list[PaymentEvent]:
    return [event(mark, at) for at, mark in enumerate(timeline) if mark != "."]


def shown(rows: Iterable[Sequence[Any]]) -> list[str]:
    return [_shown(row) for row in rows]


def _shown(row: Any) -> str:
    assert row.account_id == "acc"
    if isinstance(row, FraudAlert):
        evidence = " ".join(row.evidence)
        return (
            f"{row.raised_ms}: {row.kind} from {row.previous_state}, {row.reason},"
            f" {row.transaction_count} of {row.amount:.0f} ({evidence})"
        )
    assert isinstance(row, FraudSummary)
    return (
        f"{row.closed_ms}: {row.close_reason} in {row.state} since {row.opened_ms},"
        f" {row.transaction_count} of {row.amount:.0f}, {row.alert_count} alerts"
    )


def stream(
    *batches: tuple[int, list[PaymentEvent]], machine: FraudMachine = MACHINE, limits: Limits = LIMITS
) -> tuple[AccountState, list[tuple[Any, ...]]]:
    """Run batches of (watermark, events); returns what is kept, and all rows."""
    kept: AccountState = AccountState()
    rows = list[tuple[Any, ...]]()
    for watermark, events in batches:
        turn = advance(machine, "acc", kept, events, watermark_ms=watermark, limits=limits)
        kept = turn.kept
        rows += turn.rows
    return kept, rows


# name: (machine, timeline, rows)
#  0         1         2         3         4         5         6
#  0123456789012345678901234567890123456789012345678901234567890
CASES: dict[str, tuple[FraudMachine, str, list[str]]] = {
    "one transaction, then silence": (EVEN, "t", ["30: IDLE in watching since 0, 1 of 100, 0 alerts"]),
    "only a transaction begins to watch": (MACHINE, "arco", []),
    "what came before it does not count": (
        MACHINE,
        "arco.t",
        ["35: IDLE in watching since 5, 1 of 100, 0 alerts"],
    ),
    "five within the window": (
        MACHINE,
        "t.t.t.tt",
        [
            "7: SUSPICIOUS from watching, VELOCITY_COUNT, 5 of 500 (0 2 4 6 7)",
            "37: IDLE in suspicious since 0, 5 of 500, 1 alerts",
        ],
    ),
    "the fifth a window after the first": (
        MACHINE,
        "t.t.t.t...t",
        ["40: IDLE in watching since 0, 5 of 500, 0 alerts"],
    ),
    "the window slides": (
        MACHINE,
        "t.t.t.t...tt",
        [
            "11: SUSPICIOUS from watching, VELOCITY_COUNT, 5 of 500 (2 4 6 10 11)",
            "41: IDLE in suspicious since 0, 6 of 600, 1 alerts",
        ],
    ),
    "the amount is reached": (
        MACHINE,
        "T.T",
        [
            "2: SUSPICIOUS from watching, VELOCITY_AMOUNT, 2 of 6000 (0 2)",
            "32: IDLE in suspicious since 0, 2 of 6000, 1 alerts",
        ],
    ),
    "the amount is not reached within the window": (
        MACHINE,
        "T.........T",
        ["40: IDLE in watching since 0, 2 of 6000, 0 alerts"],
    ),
    "exactly the amount, by the first transaction": (
        MACHINE,
        "X",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "30: IDLE in suspicious since 0, 1 of 5000, 1 alerts",
        ],
    ),
    "any event keeps an account awake": (
        MACHINE,
        "t" + "." * 28 + "a" + "." * 28 + "o" + "." * 28 + "r" + "." * 28 + "c",
        ["146: IDLE in watching since 0, 1 of 100, 0 alerts"],
    ),
    "an event at the end of the idle time is too late": (
        MACHINE,
        "t" + "." * 29 + "t",
        [
            "30: IDLE in watching since 0, 1 of 100, 0 alerts",
            "60: IDLE in watching since 30, 1 of 100, 0 alerts",
        ],
    ),
    "authenticated in time clears the suspicion and the window": (
        MACHINE,
        "X..attttT",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "8: SUSPICIOUS from watching, VELOCITY_COUNT, 5 of 3400 (4 5 6 7 8)",
            "38: IDLE in suspicious since 0, 6 of 8400, 2 alerts",
        ],
    ),
    "transactions before the authentication are forgotten too": (
        MACHINE,
        "..Xttattt",
        [
            "2: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (2)",
            "38: IDLE in watching since 2, 6 of 5500, 1 alerts",
        ],
    ),
    "authenticated too late changes nothing": (
        MACHINE,
        "X...ar",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "5: FLAGGED from suspicious, REVIEW_CONFIRMED, 0 of 0 (5)",
            "55: EXPIRED in flagged since 0, 1 of 5000, 2 alerts",
        ],
    ),
    "a second breach counts from the first on": (
        MACHINE,
        "ttttttttt.t",
        [
            "4: SUSPICIOUS from watching, VELOCITY_COUNT, 5 of 500 (0 1 2 3 4)",
            "10: FLAGGED from suspicious, VELOCITY_COUNT, 5 of 500 (5 6 7 8 10)",
            "60: EXPIRED in flagged since 0, 10 of 1000, 2 alerts",
        ],
    ),
    "a confirmed review says what it rests on": (
        MACHINE,
        "X.tt.r",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "5: FLAGGED from suspicious, REVIEW_CONFIRMED, 2 of 200 (2 3 5)",
            "55: EXPIRED in flagged since 0, 3 of 5200, 2 alerts",
        ],
    ),
    "a suspicion is neither closed nor ended by other events": (
        MACHINE,
        "Xoc",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "32: IDLE in suspicious since 0, 1 of 5000, 1 alerts",
        ],
    ),
    "nothing but its case moves a flagged account": (
        MACHINE,
        "XXXarotttttc",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "1: FLAGGED from suspicious, VELOCITY_AMOUNT, 1 of 5000 (1)",
            "11: CASE_CLOSED in flagged since 0, 8 of 15500, 2 alerts",
        ],
    ),
    "events do not prolong a review": (
        MACHINE,
        "XX" + "." * 38 + "tt",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "1: FLAGGED from suspicious, VELOCITY_AMOUNT, 1 of 5000 (1)",
            "51: EXPIRED in flagged since 0, 4 of 10200, 2 alerts",
        ],
    ),
    "a closed case starts from nothing": (
        MACHINE,
        "XXctc",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "1: FLAGGED from suspicious, VELOCITY_AMOUNT, 1 of 5000 (1)",
            "2: CASE_CLOSED in flagged since 0, 2 of 10000, 2 alerts",
            "34: IDLE in watching since 3, 1 of 100, 0 alerts",
        ],
    ),
    "safety while watching": (HASTY, "t", ["20: SAFETY in watching since 0, 1 of 100, 0 alerts"]),
    "safety while suspicious": (
        HASTY,
        "X",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "20: SAFETY in suspicious since 0, 1 of 5000, 1 alerts",
        ],
    ),
    "safety while flagged": (
        HASTY,
        "XXt",
        [
            "0: SUSPICIOUS from watching, VELOCITY_AMOUNT, 1 of 5000 (0)",
            "1: FLAGGED from suspicious, VELOCITY_AMOUNT, 1 of 5000 (1)",
            "21: SAFETY in flagged since 0, 3 of 10100, 2 alerts",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rows_of_a_timeline(name: str) -> None:
    machine, timeline, expected = CASES[name]
    events = events_of(timeline)

    assert shown(replay_oracle(machine, "acc", events)) == expected
    kept, rows = stream((0, list(reversed(events))), (END, []), machine=machine)
    assert shown(rows) == expected
    assert kept.is_empty


def test_the_timelines_take_every_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[Transition] = set()

    class Recorded(dict[tuple[str, str], Transition]):
        def get(self, key: Any, default: Any = None) -> Any:
            taken.add(self[key])
            return self[key]

    monkeypatch.setattr(transitions, "TRANSITIONS", Recorded(TRANSITIONS))
    for machine, timeline, _ in CASES.values():
        replay_oracle(machine, "acc", events_of(timeline))

    assert set(TRANSITIONS.values()) - taken == set()


def test_a_timeout_comes_when_the_watermark_reaches_it_and_not_before() -> None:
    arrived = (0, events_of("t"))

    kept, rows = stream(arrived, (29, []))
    assert kept.state is not None and kept.state.entered_ms == 0
    assert rows == []
    assert shown(stream(arrived, (30, []))[1]) == ["30: IDLE in watching since 0, 1 of 100, 0 alerts"]


def test_an_alert_is_raised_as_soon_as_no_earlier_event_can_come() -> None:
    arrived = (0, events_of(".......X"))

    assert stream(arrived, (7, []))[1] == []
    assert len(stream(arrived, (8, []))[1]) == 1


def test_identities_come_from_the_account_and_the_first_event() -> None:
    rows = replay_oracle(MACHINE, "acc", events_of("XXcX"))
    kinds = [("SUSPICIOUS", 0), ("FLAGGED", 1), ("summary", 0), ("SUSPICIOUS", 3), ("summary", 3)]
    assert [row[0] for row in rows] == [row_id("acc", kind, at, str(at)) for kind, at in kinds]


def test_the_evidence_is_bounded_and_keeps_the_newest() -> None:
    machine = FraudMachine(
        replace(SETTINGS, velocity_count=30, velocity_amount=10**9, velocity_window_ms=100)
    )
    alert, _ = replay_oracle(machine, "acc", events_of("t" * 30))

    assert isinstance(alert, FraudAlert)
    assert alert.transaction_count == 30
    assert alert.evidence == tuple(str(at) for at in range(30 - MAX_EVIDENCE, 30))


def test_totals_stop_at_what_64_bits_hold() -> None:
    largest = 10**12 * MICROS
    events = [PaymentEvent(str(at), at, "transaction", largest) for at in range(20)]
    kept, _ = stream((0, events), (20, []))

    assert kept.state is not None
    assert (kept.state.amount_micros, kept.state.transaction_count) == (MAX_MICROS, 20)


def test_a_window_of_other_settings_is_a_breach_at_the_next_transaction_only() -> None:
    window = tuple(Payment(at, f"e{at}", 0) for at in range(9))
    kept: AccountState = AccountState(FraudState("watching", 0, 0, 8, "id", window))

    for mark, alerts in (("o", 0), ("t", 1)):
        turn = advance(MACHINE, "acc", kept, [event(mark, 9)], watermark_ms=9, passed_ms=10, limits=LIMITS)
        assert len(turn.rows) == alerts


def test_a_state_of_another_release_is_removed_by_the_safety_timeout() -> None:
    kept: AccountState = AccountState(FraudState("appealed", 0, 5, 5, "id"))
    turn = advance(MACHINE, "acc", kept, events_of(".........tX"), watermark_ms=9, limits=LIMITS)
    turn = advance(MACHINE, "acc", turn.kept, [], watermark_ms=104, limits=LIMITS)
    assert turn.rows == []
    turn = advance(MACHINE, "acc", turn.kept, [], watermark_ms=105, limits=LIMITS)

    assert shown(turn.rows) == ["105: SAFETY in appealed since 0, 2 of 5100, 0 alerts"]
    assert turn.kept.is_empty
