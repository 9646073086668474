"""Rows of a table become the events that the stream would have read from its topic."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stateward.runtime.api.record_fields import PLACE_AS_ID, Field
from stateward.runtime.ingest.event_rows import AFTER_MS_US
from stateward.state.migration.event_converter import EventConverter
from tests.unit.runtime.ingest.test_event_rows import SORTER, W

AT = datetime.fromtimestamp(W / 1000, UTC)
CONVERTER = EventConverter(SORTER, "", ("customer",), ":", W)
GOOD = {"event_id": "e1", "customer": "u1", "event_time": AT, "value": 1.5, "kind": True}


def converted(rows: list[dict[str, Any]], converter: EventConverter = CONVERTER) -> list[dict[str, Any]]:
    batches = converter.batches([pa.RecordBatch.from_pylist(rows)])
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_row_is_the_event_that_a_record_with_its_values_is() -> None:
    [row] = converted([{**GOOD, "of_no_field": 7}])
    assert row == {
        "_tick_ts": None,
        "_kind": None,
        "_rows": None,
        "_data": None,
        "event_time": AT + timedelta(microseconds=AFTER_MS_US),
        "event_id": "e1",
        "user": "u1",
        "value": Decimal("1.500000000"),
        "kind": True,
        "_key": "u1",
        "_wrong": None,
    }


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("value", Decimal("7.000000000"), 7),
        ("value", Decimal("-0.25"), -0.25),
        ("value", "12", 12),
        ("value", "1e3", 1000.0),
        ("kind", "TRUE", True),
        ("kind", "false", False),
        ("event_time", AT.replace(tzinfo=None), AT.isoformat()),
        (
            "event_time",
            datetime(2024, 3, 1, 12, tzinfo=timezone(timedelta(hours=2))),
            "2024-03-01T12:00:00+02:00",
        ),
        ("event_time", date(2024, 3, 1), "2024-03-01T00:00:00+00:00"),
        ("event_time", "2024-03-01T12:00:00Z", "2024-03-01T12:00:00Z"),
    ],
)
def test_a_value_is_what_json_has_for_its_field(field: str, value: Any, expected: Any) -> None:
    assert json.loads(CONVERTER.record({**GOOD, field: value}))[field] == expected


def test_several_columns_make_a_key_and_a_null_is_no_field() -> None:
    converter = replace(CONVERTER, columns=("country", "customer"), separator="-")
    found = json.loads(converter.record({**GOOD, "country": 41, "value": None}))
    assert (found["user"], "value" in found) == ("41-u1", False)
    assert "user" not in json.loads(converter.record({**GOOD, "country": None}))


def test_a_row_that_is_no_event_has_a_reason_without_its_values() -> None:
    wrong: dict[str, dict[str, Any]] = {
        "missing_field": {"customer": None},
        "wrong_type": {"value": "swordfish"},
        "event_time_in_future": {"event_time": AT + timedelta(days=1)},
        "empty_field": {"event_id": " "},
    }
    reasons = {}
    for expected, changes in wrong.items():
        [row] = converted([{**GOOD, **changes}])
        reasons[expected] = row["_wrong"]
        assert (row["event_id"], row["event_time"], row["_key"]) == (None, None, "")
    assert {expected: str(found).lower() for expected, found in reasons.items()} == {
        expected: expected for expected in wrong
    }
    good, bad = converted([GOOD, {**GOOD, "event_id": None}])
    assert (good["_wrong"], good["event_id"], bad["event_id"]) == (None, "e1", None)


def test_the_key_needs_no_column_of_its_own_name_and_others_are_required() -> None:
    assert CONVERTER.required == ["event_id", "event_time"]
    assert converted([GOOD | {"user": "another"}])[0]["user"] == "u1"
    assert list(CONVERTER.batches([pa.RecordBatch.from_pylist([GOOD]).slice(0, 0)])) == []


def test_a_table_has_the_names_of_the_fields_whatever_the_shape_of_a_record() -> None:
    shaped = (
        PLACE_AS_ID,
        Field("user", "text", path="who.id"),
        Field("value", "number", required=False, path="what.value"),
        Field("kind", "list", required=False, items="number"),
        Field("event_time", "time", path="ts", unit="ms"),
    )
    converter = replace(CONVERTER, decoder=replace(SORTER, fields=shaped))
    [row] = converted([{**GOOD, "kind": [Decimal("1.500000000"), 2]}], converter)
    assert (row["_wrong"], row["_key"], row["event_id"]) == (None, "u1", "e1")
    assert row["event_time"] == AT + timedelta(microseconds=AFTER_MS_US)
    assert row["kind"] == [Decimal("1.5"), Decimal(2)]
