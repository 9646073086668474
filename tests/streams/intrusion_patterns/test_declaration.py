"""From a configuration and bytes of Kafka to rows of the table, without an engine."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec import structs

from spark_jobs.intrusion_patterns.declaration import INTRUSION_ALERTS, JOB
from spark_jobs.intrusion_patterns.logic import IntrusionLogic
from spark_jobs.intrusion_patterns.model import IntrusionState, Match, SecurityEvent, Step
from spark_jobs.intrusion_patterns.patterns import PATTERNS
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
KINDS = ("recon_scan", "auth_failure", "privilege_escalation")


@pytest.fixture(scope="module")
def config() -> Config:
    return parse_config(resolved_configuration(load_spec("intrusion_patterns"), Settings(), "r1"), "test")


def record(number: int, **changes: Any) -> bytes:
    fields = {
        "event_id": f"e{number}",
        "source_ip": "203.0.113.7",
        "kind": KINDS[number % 3],
        "event_time": f"2026-01-01T00:00:{number:02}.250Z",
        **changes,
    }
    return json.dumps({name: value for name, value in fields.items() if value != "absent"}).encode()


def parsed(config: Config, value: bytes) -> Parsed | Rejection:
    return Parser(JOB.fields(config), BOUNDS).parse(value, TODAY_MS)


def event_of(config: Config, value: bytes) -> SecurityEvent:
    verdict = parsed(config, value)
    assert isinstance(verdict, Parsed), verdict
    return SecurityEvent(*JOB.event(verdict.record, verdict.event_ms))


def test_each_pattern_has_its_own_horizon_unless_the_settings_name_one(config: Config) -> None:
    bare = structs.replace(config, logic={"max_held_events": 10_000})
    named = structs.replace(config, logic={"horizon_ms": 5_000, "max_held_events": 10_000})

    assert JOB.logic(config) == JOB.logic(bare) == IntrusionLogic(PATTERNS)
    assert JOB.logic(named) == IntrusionLogic(tuple(replace(one, horizon_ms=5_000) for one in PATTERNS))


@pytest.mark.parametrize("kind", [*KINDS, "password_changed"])
def test_a_record_becomes_an_event(config: Config, kind: str) -> None:
    assert event_of(config, record(3, kind=kind)) == SecurityEvent("e3", TODAY_MS + 3250, kind)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "absent"}, Reason.MISSING_FIELD),
        ({"kind": 3}, Reason.WRONG_TYPE),
        ({"source_ip": None}, Reason.MISSING_FIELD),
        ({"source_ip": " "}, Reason.EMPTY_FIELD),
        ({"event_time": "2026-01-01"}, Reason.EVENT_TIME_UNPARSABLE),
    ],
)
def test_a_bad_record_is_a_dead_letter(config: Config, changes: dict[str, Any], reason: Reason) -> None:
    verdict = parsed(config, record(3, **changes))
    assert isinstance(verdict, Rejection)
    assert verdict.reason == reason


def test_what_is_kept_survives_its_encoding() -> None:
    state = IntrusionState((Match("p", (Step(1, "a"),)), Match("p", (Step(1, "a"), Step(2, "ü")))))
    kept = KeyState(state, (SecurityEvent("h", 12, "auth_failure"),), (Seen("a", 1),), 5)
    codec: KeptCodec[IntrusionState, SecurityEvent] = KeptCodec(IntrusionState, SecurityEvent)

    back = codec.decode(codec.encode(kept))
    assert back == kept
    assert back.state is not None
    assert isinstance(back.state.matches[1], Match)
    assert isinstance(back.state.matches[1].steps[1], Step)


def test_rows_fit_their_table(config: Config, tmp_path: Path) -> None:
    events = [event_of(config, record(number)) for number in range(6)]
    rows = replay_oracle(JOB.logic(config), "203.0.113.7", events)
    assert [type(row) for row in rows] == [JOB.outputs[0].row] * 2

    renames = {"started_ms": "started_at", "completed_ms": "completed_at"}
    names = [renames.get(name, name) for name in JOB.outputs[0].row.__annotations__]
    packed = decode_rows(encode_rows(INTRUSION_ALERTS, rows))
    assert packed.column_names == names

    uri = f"file://{tmp_path}/intrusion_alerts"
    INTRUSION_ALERTS.create(uri)
    write_deltalake(uri, packed, mode="append")
    table = DeltaTable(uri)
    assert [field.name for field in table.schema().fields] == names
    assert all(field.metadata["comment"] for field in table.schema().fields)
    first, second = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["started_at"])
    times = [datetime(2026, 1, 1, 0, 0, at, 250_000, UTC) for at in range(3)]
    assert (first["started_at"], first["completed_at"], first["duration_ms"]) == (times[0], times[2], 2000)
    assert (first["event_ids"], first["event_times"]) == (["e0", "e1", "e2"], times)
    assert second["event_ids"] == ["e3", "e4", "e5"]
