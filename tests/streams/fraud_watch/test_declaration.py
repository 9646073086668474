"""From the shipped YAML and bytes of Kafka to rows of the tables, without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_jobs.fraud_watch.declaration import FRAUD_ALERTS, JOB
from spark_jobs.fraud_watch.machine import FraudMachine
from spark_jobs.fraud_watch.model import FraudSettings, FraudState, Payment, PaymentEvent
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.key_logic import KeyState, replay_oracle
from stateward.runtime.api.record_fields import Bounds, Reason
from stateward.runtime.ingest.parse import Parsed, Parser, Rejection
from stateward.runtime.keyed.admission import Seen
from stateward.runtime.keyed.codec import KeptCodec
from stateward.runtime.sink.output_rows import decode_rows, encode_rows

TODAY_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
BOUNDS = Bounds(not_before_ms=0, max_ahead_ms=3_600_000, max_record_bytes=10_000)


@pytest.fixture(scope="module")
def config() -> Config:
    return parse_config(resolved_configuration(load_spec("fraud_watch"), Settings(), "r1"), "test")


def payment(number: int, **changes: Any) -> bytes:
    record = {
        "event_id": f"e{number}",
        "account_id": "acc",
        "kind": "transaction",
        "amount": 12.34,
        "event_time": f"2026-01-01T00:00:{number:02}Z",
        **changes,
    }
    return json.dumps({name: value for name, value in record.items() if value != "absent"}).encode()


def parsed(config: Config, value: bytes) -> Parsed | Rejection:
    return Parser(JOB.fields(config), BOUNDS).parse(value, TODAY_MS)


def event_of(config: Config, value: bytes) -> PaymentEvent:
    verdict = parsed(config, value)
    assert isinstance(verdict, Parsed), verdict
    return PaymentEvent(*JOB.event(verdict.record, verdict.event_ms))


def test_the_shipped_settings_reach_the_machine(config: Config) -> None:
    assert JOB.logic(config) == FraudMachine(FraudSettings())
    assert {output.table.name for output in JOB.outputs} <= set(config.tables)


@pytest.mark.parametrize(
    ("changes", "kind", "micros"),
    [
        ({}, "transaction", 12_340_000),
        ({"amount": 7}, "transaction", 7_000_000),
        ({"amount": 1e12}, "transaction", 10**18),
        ({"amount": "absent"}, "transaction", 0),
        ({"kind": "authenticated", "amount": None}, "authenticated", 0),
    ],
)
def test_a_record_becomes_an_event(config: Config, changes: dict[str, Any], kind: str, micros: int) -> None:
    assert event_of(config, payment(3, **changes)) == PaymentEvent("e3", TODAY_MS + 3000, kind, micros)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"amount": -0.01}, Reason.VALUE_OUT_OF_RANGE),
        ({"amount": 1.1e12}, Reason.VALUE_OUT_OF_RANGE),
        ({"amount": "12"}, Reason.WRONG_TYPE),
        ({"amount": True}, Reason.WRONG_TYPE),
        ({"kind": "absent"}, Reason.MISSING_FIELD),
        ({"account_id": " "}, Reason.EMPTY_FIELD),
    ],
)
def test_a_bad_record_is_a_dead_letter(config: Config, changes: dict[str, Any], reason: Reason) -> None:
    verdict = parsed(config, payment(3, **changes))
    assert isinstance(verdict, Rejection)
    assert verdict.reason == reason


def test_what_is_kept_survives_its_encoding() -> None:
    state = FraudState("watching", 1, 1, 9, "id", (Payment(1, "a", 10**18), Payment(9, "ü", 0)), 2, 2**63 - 1)
    kept = KeyState(state, (PaymentEvent("h", 12, "authenticated"),), (Seen("a", 1),), 5)
    codec: KeptCodec[FraudState, PaymentEvent] = KeptCodec(FraudState, PaymentEvent)

    back = codec.decode(codec.encode(kept))
    assert back == kept
    assert back.state is not None
    assert isinstance(back.state.window[0], Payment)


def test_rows_fit_their_tables(config: Config, tmp_path: Path) -> None:
    kinds = [{}] * 5 + [{"kind": "review_confirmed"}, {"kind": "case_closed"}]
    events = [event_of(config, payment(number, **changes)) for number, changes in enumerate(kinds)]
    rows = replay_oracle(JOB.logic(config), "acc", events)

    assert [type(row) for row in rows] == [output.row for output in (*JOB.outputs[:1] * 2, JOB.outputs[1])]
    for output in JOB.outputs:
        table = decode_rows(encode_rows(output.table, [row for row in rows if type(row) is output.row]))
        renamed = [name.replace("_ms", "_at") for name in output.row.__annotations__]
        assert table.column_names == renamed
        output.table.create(f"file://{tmp_path}/{output.table.name}")
        fields = DeltaTable(f"file://{tmp_path}/{output.table.name}").schema().fields
        assert [field.name for field in fields] == renamed

    alert = decode_rows(encode_rows(FRAUD_ALERTS, rows[:1])).to_pylist()[0]
    assert (alert["amount"], alert["evidence"]) == (61.7, ["e0", "e1", "e2", "e3", "e4"])
    assert alert["raised_at"].isoformat() == "2026-01-01T00:00:04+00:00"
