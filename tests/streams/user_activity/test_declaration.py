"""From bytes of Kafka to rows of the tables of ``user_activity``, without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from spark_jobs.user_activity.declaration import JOB
from spark_jobs.user_activity.logic import ActivityLogic
from spark_jobs.user_activity.model import ActivityEvent, ActivitySettings, ActivityState
from stateward.runtime.api.config import Config
from stateward.runtime.api.key_logic import KeyState, replay_oracle
from stateward.runtime.api.record_fields import Bounds, Reason
from stateward.runtime.ingest.parse import Parsed, Parser, Rejection
from stateward.runtime.keyed.admission import Seen
from stateward.runtime.keyed.codec import KeptCodec
from stateward.runtime.sink.output_rows import decode_rows, encode_rows

TODAY_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
BOUNDS = Bounds(not_before_ms=0, max_ahead_ms=3_600_000, max_record_bytes=10_000)
# The declaration looks at the section `logic` alone.
CONFIG = cast(
    Config,
    SimpleNamespace(
        logic={"session_timeout_ms": 3_600_000, "counter_idle_ms": 2_592_000_000, "max_held_events": 100}
    ),
)


def record(number: int, **changes: Any) -> bytes:
    fields = {
        "event_id": f"e{number}",
        "user_id": "u",
        "activity": "login",
        "event_time": f"2026-01-01T00:00:{number:02}Z",
        **changes,
    }
    return json.dumps({name: value for name, value in fields.items() if value != "absent"}).encode()


def parsed(value: bytes) -> Parsed | Rejection:
    return Parser(JOB.fields(CONFIG), BOUNDS).parse(value, TODAY_MS)


def event_of(value: bytes) -> ActivityEvent:
    verdict = parsed(value)
    assert isinstance(verdict, Parsed), verdict
    return ActivityEvent(*JOB.event(verdict.record, verdict.event_ms))


def test_the_settings_reach_the_logic() -> None:
    assert JOB.logic(CONFIG) == ActivityLogic(ActivitySettings(max_held_events=100))


@pytest.mark.parametrize("activity", ["login", "logout", "LOGIN", "lunch"])
def test_a_record_becomes_an_event_whatever_its_activity(activity: str) -> None:
    assert event_of(record(3, activity=activity, more=1)) == ActivityEvent("e3", TODAY_MS + 3000, activity)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"activity": "absent"}, Reason.MISSING_FIELD),
        ({"activity": None}, Reason.MISSING_FIELD),
        ({"activity": 1}, Reason.WRONG_TYPE),
        ({"activity": " "}, Reason.EMPTY_FIELD),
        ({"user_id": "absent"}, Reason.MISSING_FIELD),
        ({"event_time": "2026-01-01T00:00:00"}, Reason.EVENT_TIME_UNPARSABLE),
    ],
)
def test_a_bad_record_is_a_dead_letter(changes: dict[str, Any], reason: Reason) -> None:
    verdict = parsed(record(3, **changes))
    assert isinstance(verdict, Rejection)
    assert verdict.reason == reason


@pytest.mark.parametrize(
    "state", [ActivityState(3, 9, timed_out=True), ActivityState(0, 12, login_ms=9, session_id="ü")]
)
def test_what_is_kept_survives_its_encoding(state: ActivityState) -> None:
    kept = KeyState(state, (ActivityEvent("h", 12, "logout"),), (Seen("a", 1),), 5)
    codec: KeptCodec[ActivityState, ActivityEvent] = KeptCodec(ActivityState, ActivityEvent)

    assert codec.decode(codec.encode(kept)) == kept


def test_rows_fit_their_tables(tmp_path: Path) -> None:
    activities = ["login", "logout", "logout", "lunch"]
    events = [event_of(record(number, activity=name)) for number, name in enumerate(activities)]
    rows = replay_oracle(JOB.logic(CONFIG), "u", events)

    written = {}
    for output in JOB.outputs:
        mine = [row for row in rows if type(row) is output.row]
        written[output.table.name] = decode_rows(encode_rows(output.table, mine)).to_pylist()
        renamed = [
            name if name == "duration_ms" else name.replace("_ms", "_at")
            for name in output.row.__annotations__
        ]
        assert list(written[output.table.name][0]) == renamed
        output.table.create(f"file://{tmp_path}/{output.table.name}")
        fields = DeltaTable(f"file://{tmp_path}/{output.table.name}").schema().fields
        assert [field.name for field in fields] == renamed
        assert all(field.metadata["comment"] for field in fields)

    (session,) = written["activity_sessions"]
    assert (session["session_count"], session["duration_ms"], session["close_reason"]) == (1, 1000, "LOGOUT")
    assert session["logout_at"].isoformat() == "2026-01-01T00:00:01+00:00"
    assert [(row["event_id"], row["reason"]) for row in written["activity_anomalies"]] == [
        ("e2", "LOGOUT_WITHOUT_LOGIN"),
        ("e3", "UNKNOWN_ACTIVITY"),
    ]
