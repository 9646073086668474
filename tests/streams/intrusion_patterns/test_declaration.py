"""What is particular to the records and rows of ``intrusion_patterns``, without an engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs

from spark_jobs.intrusion_patterns.declaration import INTRUSION_ALERTS, JOB
from spark_jobs.intrusion_patterns.logic import IntrusionLogic
from spark_jobs.intrusion_patterns.model import SecurityEvent
from spark_jobs.intrusion_patterns.patterns import PATTERNS
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.sink.output_rows import decode_rows, encode_rows
from stateward.testing.declarations import TODAY_MS, Records

KINDS = ("recon_scan", "auth_failure", "privilege_escalation")
RECORDS = Records("intrusion_patterns")


def test_each_pattern_has_its_own_horizon_unless_the_settings_name_one() -> None:
    config = RECORDS.config
    bare = structs.replace(config, logic={"max_held_events": 10_000})
    named = structs.replace(config, logic={"horizon_ms": 5_000, "max_held_events": 10_000})

    assert JOB.logic(config) == JOB.logic(bare) == IntrusionLogic(PATTERNS)
    assert JOB.logic(named) == IntrusionLogic(tuple(replace(one, horizon_ms=5_000) for one in PATTERNS))


@pytest.mark.parametrize("kind", [*KINDS, "password_changed"])
def test_a_record_becomes_an_event(kind: str) -> None:
    assert RECORDS.event(3, kind=kind) == SecurityEvent("e3", TODAY_MS + 3250, kind)


def test_the_rows_of_two_patterns() -> None:
    events = [RECORDS.event(number, kind=KINDS[number % 3]) for number in range(6)]
    rows = replay_oracle(JOB.logic(RECORDS.config), "203.0.113.7", events)

    first, second = decode_rows(encode_rows(INTRUSION_ALERTS, rows)).to_pylist()
    times = [datetime(2026, 1, 1, 0, 0, at, 250_000, UTC) for at in range(3)]
    assert (first["started_at"], first["completed_at"], first["duration_ms"]) == (times[0], times[2], 2000)
    assert (first["event_ids"], first["event_times"]) == (["e0", "e1", "e2"], times)
    assert second["event_ids"] == ["e3", "e4", "e5"]
