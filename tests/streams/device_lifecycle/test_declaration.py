"""From bytes of Kafka to rows of the tables, without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from spark_jobs.device_lifecycle.declaration import DEVICE_ALERTS, DEVICE_STATUS, JOB
from spark_jobs.device_lifecycle.machine import DeviceMachine
from spark_jobs.device_lifecycle.model import DeviceReading, DeviceSettings, DeviceState
from stateward.runtime.api.config import Config
from stateward.runtime.api.key_logic import KeyState, replay_oracle
from stateward.runtime.api.record_fields import Bounds, Reason
from stateward.runtime.ingest.parse import Parsed, Parser, Rejection
from stateward.runtime.keyed.admission import Seen
from stateward.runtime.keyed.codec import KeptCodec
from stateward.runtime.sink.output_rows import decode_rows, encode_rows

TODAY_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
BOUNDS = Bounds(not_before_ms=0, max_ahead_ms=86_400_000, max_record_bytes=10_000)
LOGIC = {"offline_after_ms": 3_600_000, "forget_after_ms": 2_592_000_000, "max_held_events": 10_000}
# Of the configuration the declaration reads the stream's own settings only.
CONFIG = cast("Config", SimpleNamespace(logic=LOGIC))


def reading(hour: int, **changes: Any) -> bytes:
    record = {
        "event_id": f"e{hour}",
        "device_id": "dev",
        "status": "running",
        "error_code": None,
        "event_time": f"2026-01-01T{hour:02}:00:00Z",
        **changes,
    }
    return json.dumps({name: value for name, value in record.items() if value != "absent"}).encode()


def parsed(value: bytes) -> Parsed | Rejection:
    return Parser(JOB.fields(CONFIG), BOUNDS).parse(value, TODAY_MS)


def reading_of(value: bytes) -> DeviceReading:
    verdict = parsed(value)
    assert isinstance(verdict, Parsed), verdict
    return DeviceReading(*JOB.event(verdict.record, verdict.event_ms))


def test_the_settings_reach_the_machine() -> None:
    assert JOB.logic(CONFIG) == DeviceMachine(DeviceSettings(**LOGIC))


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({}, "running", None),
        ({"error_code": "absent"}, "running", None),
        ({"status": "error", "error_code": "E-17"}, "error", "E-17"),
        ({"status": "self_test"}, "self_test", None),
    ],
)
def test_a_record_becomes_a_reading(changes: dict[str, Any], status: str, code: str | None) -> None:
    assert reading_of(reading(3, **changes)) == DeviceReading("e3", TODAY_MS + 10_800_000, status, code)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "absent"}, Reason.MISSING_FIELD),
        ({"status": 1}, Reason.WRONG_TYPE),
        ({"error_code": 17}, Reason.WRONG_TYPE),
        ({"error_code": ""}, Reason.EMPTY_FIELD),
        ({"device_id": " "}, Reason.EMPTY_FIELD),
    ],
)
def test_a_bad_record_is_a_dead_letter(changes: dict[str, Any], reason: Reason) -> None:
    verdict = parsed(reading(3, **changes))
    assert isinstance(verdict, Rejection)
    assert verdict.reason == reason


def test_what_is_kept_survives_its_encoding() -> None:
    state = DeviceState("offline", "error", 1, 9, "ü", 19, 2**62, 3, ("E1", "E2"), 2)
    kept = KeyState(state, (DeviceReading("h", 30, "idle"),), (Seen("a", 1),), 5)
    codec: KeptCodec[DeviceState, DeviceReading] = KeptCodec(DeviceState, DeviceReading)

    assert codec.decode(codec.encode(kept)) == kept


def test_rows_fit_their_tables(tmp_path: Path) -> None:
    readings = [
        reading_of(reading(0)),
        reading_of(reading(3, status="error", error_code="E1")),
        reading_of(reading(4, status="retired")),
    ]
    rows = replay_oracle(JOB.logic(CONFIG), "dev", readings)

    for output in JOB.outputs:
        table = decode_rows(encode_rows(output.table, [row for row in rows if type(row) is output.row]))
        fields = list(output.row.__annotations__)
        columns = [column.name for column in output.table.columns]
        assert table.column_names == columns
        times = [column.name for column in output.table.columns if column.type == "timestamp"]
        assert [name.replace("_at", "_ms") if name in times else name for name in columns] == fields
        output.table.create(f"file://{tmp_path}/{output.table.name}")
        created = DeltaTable(f"file://{tmp_path}/{output.table.name}").schema().fields
        assert [field.name for field in created] == columns

    alerts = decode_rows(encode_rows(DEVICE_ALERTS, rows[1:2] + rows[3:4])).to_pylist()
    assert [alert["kind"] for alert in alerts] == ["OFFLINE", "BACK_ONLINE"]
    assert [alert["silence_ms"] for alert in alerts] == [None, 3 * 3_600_000]
    assert alerts[0]["raised_at"].isoformat() == "2026-01-01T01:00:00+00:00"
    assert alerts[1]["evidence"] == ["e0", "e3"]
    last = decode_rows(encode_rows(DEVICE_STATUS, rows[-1:])).to_pylist()[0]
    assert (last["mode"], last["error_codes"], last["updated_by"]) == ("retired", ["E1"], "e4")
