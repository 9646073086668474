"""What is particular to the records and rows of ``device_lifecycle``, without an engine."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.device_lifecycle.declaration import DEVICE_ALERTS, DEVICE_STATUS, JOB
from spark_jobs.device_lifecycle.machine import DeviceMachine
from spark_jobs.device_lifecycle.model import DeviceReading, DeviceSettings
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.sink.output_rows import decode_rows, encode_rows
from stateward.testing.declarations import ABSENT, TODAY_MS, Records

RECORDS = Records("device_lifecycle", status="running", error_code=None)


def reading(hour: int, **changes: Any) -> DeviceReading:
    found: DeviceReading = RECORDS.event(hour, event_time=f"2026-01-01T{hour:02}:00:00Z", **changes)
    return found


def test_the_settings_reach_the_machine() -> None:
    assert JOB.logic(RECORDS.config) == DeviceMachine(DeviceSettings())


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({}, "running", None),
        ({"error_code": ABSENT}, "running", None),
        ({"status": "error", "error_code": "E-17"}, "error", "E-17"),
        ({"status": "self_test"}, "self_test", None),
    ],
)
def test_a_record_becomes_a_reading(changes: dict[str, Any], status: str, code: str | None) -> None:
    assert reading(3, **changes) == DeviceReading("e3", TODAY_MS + 10_800_000, status, code)


def test_the_rows_of_a_silence_and_of_the_last_reading() -> None:
    readings = [reading(0), reading(3, status="error", error_code="E1"), reading(4, status="retired")]
    rows = replay_oracle(JOB.logic(RECORDS.config), "dev", readings)

    alerts = decode_rows(encode_rows(DEVICE_ALERTS, rows[1:2] + rows[3:4])).to_pylist()
    assert [alert["kind"] for alert in alerts] == ["OFFLINE", "BACK_ONLINE"]
    assert [alert["silence_ms"] for alert in alerts] == [None, 3 * 3_600_000]
    assert alerts[0]["raised_at"].isoformat() == "2026-01-01T01:00:00+00:00"
    assert alerts[1]["evidence"] == ["e0", "e3"]
    last = decode_rows(encode_rows(DEVICE_STATUS, rows[-1:])).to_pylist()[0]
    assert (last["mode"], last["error_codes"], last["updated_by"]) == ("retired", ["E1"], "e4")
