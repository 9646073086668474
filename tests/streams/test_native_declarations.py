"""Streams on Spark's own operators: from a configuration to columns and tables, without an engine."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.event_windows import declaration as event_windows
from spark_jobs.event_windows.logic import all_rows as windows_of
from spark_jobs.event_windows.model import UserEvent, WindowSettings
from spark_jobs.payment_auth_join import declaration as payment_auth_join
from spark_jobs.payment_auth_join.logic import all_rows as payments_of
from spark_jobs.payment_auth_join.model import PaymentEvent
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from stateward.project.spec import SpecError, load_spec
from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import Bounds, Reason
from stateward.runtime.ingest.event_rows import to_decimal
from stateward.runtime.ingest.parse import Parsed, Parser, Rejection
from stateward.runtime.sink.output_rows import decode_rows, encode_rows, encode_table

TODAY_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
BOUNDS = Bounds(not_before_ms=0, max_ahead_ms=3_600_000, max_record_bytes=10_000)
JOBS = {"event_windows": event_windows.JOB, "payment_auth_join": payment_auth_join.JOB}
RECORDS = {
    "event_windows": {"event_id": "e", "user_id": "u", "event_type": "view", "value": 1.5},
    "payment_auth_join": {"event_id": "e", "account_id": "a", "kind": "transaction", "amount": 1.5},
}


def config_of(stream: str) -> Config:
    return parse_config(resolved_configuration(load_spec(stream), Settings(), "r1"), "test")


def parsed(stream: str, **changes: Any) -> Parsed | Rejection:
    fields = {**RECORDS[stream], "event_time": "2026-01-01T00:00:00.250Z", **changes}
    value = json.dumps({name: item for name, item in fields.items() if item != "absent"}).encode()
    return Parser(JOBS[stream].fields(config_of(stream)), BOUNDS).parse(value, TODAY_MS)


def test_the_shipped_settings_are_the_defaults() -> None:
    windows, join = load_spec("event_windows"), load_spec("payment_auth_join")
    assert windows.logic.config() == {"size_ms": 300_000, "slide_ms": 60_000}
    assert join.logic.config() == {"before_ms": 120_000, "after_ms": 120_000}
    for spec in (windows, join):
        assert spec.event_time.allowed_lateness == timedelta(minutes=10)
        # The id of the last event is remembered for ten minutes after the watermark has reached it.
        assert spec.longest_timeout == timedelta(minutes=20)
        assert tuple(spec.tables) == tuple(output.table.name for output in JOBS[spec.stream].outputs)


def test_a_slide_beyond_the_size_is_refused(tmp_path: Path) -> None:
    shipped = Path(__file__).resolve().parents[2] / "include" / "streams" / "event_windows.yaml"
    (tmp_path / shipped.name).write_text(shipped.read_text().replace("  slide: 1m", "  slide: 6m"))
    with pytest.raises(SpecError, match=r"logic\.slide to be at most logic\.size \(5m\)"):
        load_spec("event_windows", tmp_path)
    assert WindowSettings(slide_ms=300_000).slide_ms == 300_000


@pytest.mark.parametrize(
    ("stream", "changes", "reason"),
    [
        ("event_windows", {}, None),
        ("event_windows", {"value": None}, None),
        ("event_windows", {"value": "absent"}, None),
        ("event_windows", {"value": -1e12}, None),
        ("event_windows", {"value": -1.1e12}, Reason.VALUE_OUT_OF_RANGE),
        ("event_windows", {"value": "1"}, Reason.WRONG_TYPE),
        ("event_windows", {"event_type": " "}, Reason.EMPTY_FIELD),
        ("payment_auth_join", {}, None),
        ("payment_auth_join", {"amount": "absent"}, None),
        ("payment_auth_join", {"amount": -0.01}, Reason.VALUE_OUT_OF_RANGE),
        ("payment_auth_join", {"account_id": None}, Reason.MISSING_FIELD),
        ("payment_auth_join", {"event_time": "2026-01-01"}, Reason.EVENT_TIME_UNPARSABLE),
    ],
)
def test_what_is_an_event_and_what_a_dead_letter(
    stream: str, changes: dict[str, Any], reason: Reason | None
) -> None:
    verdict = parsed(stream, **changes)
    assert (verdict.reason if isinstance(verdict, Rejection) else None) == reason


def rows_of(stream: str) -> list[Any]:
    value = to_decimal(1.5)
    if stream == "event_windows":
        event = UserEvent("e", TODAY_MS, "u", "view", value)
        return [*windows_of([event], **config_of(stream).logic)]
    events = [
        PaymentEvent("p", TODAY_MS, "a", "transaction", value),
        PaymentEvent("q", TODAY_MS + 900_000, "a", "transaction", None),
        PaymentEvent("x", TODAY_MS + 1, "a", "authenticated", None),
    ]
    return [*payments_of(events, **config_of(stream).logic)]


@pytest.mark.parametrize(("stream", "job"), JOBS.items())
def test_rows_fit_their_tables(stream: str, job: NativeJob, tmp_path: Path) -> None:
    for output in job.outputs:
        rows = [row for row in rows_of(stream) if type(row) is output.row]
        assert rows
        packed = encode_rows(output.table, rows)
        # What Spark hands over is in Arrow already, its columns perhaps in another order.
        arrow = decode_rows(packed)
        assert encode_table(output.table, arrow.select(arrow.column_names[::-1])) == packed

        uri = f"file://{tmp_path}/{output.table.name}"
        output.table.create(uri)
        write_deltalake(uri, arrow, mode="append")
        table = DeltaTable(uri)
        assert [field.name for field in table.schema().fields] == arrow.column_names
        assert all(field.metadata["comment"] for field in table.schema().fields)
        assert table.to_pyarrow_table().num_rows == len(rows)
