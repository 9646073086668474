"""The oracle of ``payment_auth_join``: both ends of the range, and which match is the first."""

from __future__ import annotations

from decimal import Decimal

import pytest

from spark_jobs.payment_auth_join.logic import all_rows
from spark_jobs.payment_auth_join.model import PaymentAuthentication, PaymentEvent
from stateward.runtime.api.key_logic import row_id

MINUTE_MS = 60_000
BEFORE_MS, AFTER_MS = 2 * MINUTE_MS, 3 * MINUTE_MS
T0 = 1_767_225_600_000


def payment(event_id: str, at_ms: int = 0, account: str = "a", amount: str | None = "9.99") -> PaymentEvent:
    return PaymentEvent(
        event_id, T0 + at_ms, account, "transaction", None if amount is None else Decimal(amount)
    )


def authenticated(event_id: str, at_ms: int, account: str = "a") -> PaymentEvent:
    return PaymentEvent(event_id, T0 + at_ms, account, "authenticated", None)


def rows(*events: PaymentEvent) -> list[PaymentAuthentication]:
    found = all_rows(events, before_ms=BEFORE_MS, after_ms=AFTER_MS)
    assert [row.payment_id for row in found] == [row_id(row.account_id, row.transaction_id) for row in found]
    return found


@pytest.mark.parametrize(
    ("at_ms", "is_match"),
    [
        (-BEFORE_MS - 1, False),
        (-BEFORE_MS, True),
        (-BEFORE_MS + 1, True),
        (0, True),
        (AFTER_MS - 1, True),
        (AFTER_MS, True),
        (AFTER_MS + 1, False),
    ],
)
def test_both_ends_of_the_range_are_inside(at_ms: int, is_match: bool) -> None:
    (row,) = rows(payment("p"), authenticated("x", at_ms))
    found = (row.authentication_id, row.authenticated_ms)
    assert found == (("x", T0 + at_ms) if is_match else (None, None))


def test_the_first_by_time_and_then_by_id_is_taken() -> None:
    found = [
        authenticated("c", -1),
        authenticated("b", -1),
        authenticated("a", 0),
        authenticated("z", -500_000),
    ]
    (row,) = rows(*found, payment("p"))
    assert (row.authentication_id, row.authenticated_ms) == ("b", T0 - 1)


def test_one_authentication_may_go_with_several_payments_of_its_account_only() -> None:
    found = rows(payment("p"), payment("q", 5), payment("r", account="other"), authenticated("x", 1))
    assert {(row.account_id, row.transaction_id, row.authentication_id) for row in found} == {
        ("a", "p", "x"),
        ("a", "q", "x"),
        ("other", "r", None),
    }


def test_other_kinds_take_part_in_nothing() -> None:
    other = PaymentEvent("o", T0, "a", "review_confirmed", None)
    (row,) = rows(payment("p", amount=None), other)
    assert (row.transaction_id, row.transaction_ms, row.amount, row.authentication_id) == (
        "p",
        T0,
        None,
        None,
    )


def test_of_one_id_of_an_account_the_first_by_time_counts() -> None:
    (row,) = rows(payment("p", 7, amount="7"), payment("p", 3, amount="3"), authenticated("p", 9))
    assert (row.transaction_ms, row.amount, row.authentication_id) == (T0 + 3, Decimal(3), None)
