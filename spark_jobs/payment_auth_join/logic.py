"""All rows of ``payment_auth_join`` from all events, seen at once: the oracle of its plan. Pure.

A transaction goes with the first authentication of its account, by event time and then by id, from
``before`` before it to ``after`` after it, both ends inclusive. One authentication may go with several
transactions.
"""

from collections import defaultdict
from collections.abc import Iterable

from spark_jobs.payment_auth_join.model import (
    AUTHENTICATED,
    TRANSACTION,
    PaymentAuthentication,
    PaymentEvent,
)
from stateward.runtime.api.key_logic import row_id
from stateward.runtime.watermark.admission import order


def all_rows(events: Iterable[PaymentEvent], *, before_ms: int, after_ms: int) -> list[PaymentAuthentication]:
    """A row for each transaction.

    Args:
        events: In any order. The first by event time counts of those with the same account and id.
        before_ms: How long before a transaction its authentication may be, milliseconds.
        after_ms: How long after it, milliseconds.
    """
    distinct: dict[tuple[str, str], PaymentEvent] = {}
    for event in sorted(events, key=order):
        distinct.setdefault((event.account_id, event.event_id), event)
    transactions = [event for event in distinct.values() if event.kind == TRANSACTION]
    authentications: dict[str, list[PaymentEvent]] = defaultdict(list)
    for event in distinct.values():
        if event.kind == AUTHENTICATED:
            authentications[event.account_id].append(event)
    return [
        _row(one, _first(authentications[one.account_id], one.event_ms - before_ms, one.event_ms + after_ms))
        for one in transactions
    ]


def _first(events: list[PaymentEvent], from_ms: int, to_ms: int) -> PaymentEvent | None:
    """The first of the events, which are in order, from one time to another."""
    return next((event for event in events if from_ms <= event.event_ms <= to_ms), None)


def _row(transaction: PaymentEvent, authentication: PaymentEvent | None) -> PaymentAuthentication:
    return PaymentAuthentication(
        row_id(transaction.account_id, transaction.event_id),
        transaction.account_id,
        transaction.event_id,
        transaction.event_ms,
        transaction.amount,
        None if authentication is None else authentication.event_id,
        None if authentication is None else authentication.event_ms,
    )
