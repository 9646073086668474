"""Events for the parser: one that is valid, and what can be changed of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from stateward.runtime.api.record_fields import EVENT_TIME, Bounds, Field
from stateward.runtime.ingest.parse import Parser

FIELDS = (
    Field("event_id", "text"),
    Field("user_id", "text"),
    Field("event_type", "text"),
    EVENT_TIME,
    Field("is_last", "flag", required=False),
    Field("timeout_s", "number", required=False, minimum=0.001, maximum=86_400.0),
    Field("amount", "number", required=False),
    Field("channel", "text", required=False, one_of=("web", "shop")),
    Field("tags", "list", required=False, items="text"),
    Field("prices", "list", required=False, items="number"),
    Field("anything", "list", required=False),
    Field("more", "object", required=False),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


NOT_BEFORE = milliseconds("2000-01-01T00:00:00Z")
RECORD = milliseconds("2026-01-01T00:00:00Z")
PARSER = Parser(FIELDS, Bounds(NOT_BEFORE, 3_600_000, max_record_bytes=20_000))
UNPARSABLE = (
    "",
    "yesterday",
    "10:00",
    "2024-01-01T00:00:00",
    "2024-01-01T00:00Z",
    "2024-01-01t00:00:00z",
    "2024-01-01_00:00:00Z",
    "2024-01-01T00:00:00 Z",
    "2024-01-01T00:00:00Z ",
    "2024-01-01T00:00:00Z\n",
    " 2024-01-01T00:00:00Z",
    "2024-01-01T00:00:00.Z",
    "2024-01-01T00:00:00,5Z",
    "2024-01-01T00:00:00.1234567890Z",
    "2024-01-01T00:00:00+02",
    "2024-01-01T00:00:00+18:01",
    "2024-01-01T00:00:00+17:60",
    "2024-01-01T24:00:00Z",
    "2024-01-01T23:59:60Z",
    "2024-02-30T00:00:00Z",
    "2023-02-29T00:00:00Z",
    "20240-01-01T00:00:00Z",
    "٢024-01-01T00:00:00Z",
    "x" * 5000,
)
"""Texts that are no event time."""


def event(**changes: Any) -> dict[str, Any]:
    fields = {
        "event_id": "e1",
        "user_id": "u",
        "event_type": "view",
        "event_time": "2024-01-01T00:00:00Z",
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def encoded(**changes: Any) -> bytes:
    return json.dumps(event(**changes)).encode()
