"""What is particular to the records and rows of ``fraud_watch``, without an engine."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.fraud_watch.declaration import FRAUD_ALERTS, JOB
from spark_jobs.fraud_watch.machine import FraudMachine
from spark_jobs.fraud_watch.model import FraudSettings, PaymentEvent
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.api.record_fields import Reason
from stateward.runtime.sink.output_rows import decode_rows, encode_rows
from stateward.testing.declarations import ABSENT, TODAY_MS, Records

RECORDS = Records("fraud_watch", kind="transaction", amount=12.34)


def test_the_shipped_settings_reach_the_machine() -> None:
    assert JOB.logic(RECORDS.config) == FraudMachine(FraudSettings())


@pytest.mark.parametrize(
    ("changes", "kind", "micros"),
    [
        ({}, "transaction", 12_340_000),
        ({"amount": 7}, "transaction", 7_000_000),
        ({"amount": 1e12}, "transaction", 10**18),
        ({"amount": ABSENT}, "transaction", 0),
        ({"kind": "authenticated", "amount": None}, "authenticated", 0),
    ],
)
def test_a_record_becomes_an_event(changes: dict[str, Any], kind: str, micros: int) -> None:
    assert RECORDS.event(3, **changes) == PaymentEvent("e3", TODAY_MS + 3250, kind, micros)


@pytest.mark.parametrize(
    ("amount", "reason"),
    [
        (-0.01, Reason.VALUE_OUT_OF_RANGE),
        (1.1e12, Reason.VALUE_OUT_OF_RANGE),
        (True, Reason.WRONG_TYPE),
    ],
)
def test_an_amount_that_is_none_is_a_dead_letter(amount: object, reason: Reason) -> None:
    assert RECORDS.reason(amount=amount) == reason


def test_the_rows_of_a_case() -> None:
    kinds: list[dict[str, str]] = [{}] * 5 + [{"kind": "review_confirmed"}, {"kind": "case_closed"}]
    events = [RECORDS.event(number, **changes) for number, changes in enumerate(kinds)]
    rows = replay_oracle(JOB.logic(RECORDS.config), "acc", events)

    assert [type(row) for row in rows] == [output.row for output in (*JOB.outputs[:1] * 2, JOB.outputs[1])]
    alert = decode_rows(encode_rows(FRAUD_ALERTS, rows[:1])).to_pylist()[0]
    assert (alert["amount"], alert["evidence"]) == (61.7, ["e0", "e1", "e2", "e3", "e4"])
    assert alert["raised_at"].isoformat() == "2026-01-01T00:00:04.250000+00:00"
