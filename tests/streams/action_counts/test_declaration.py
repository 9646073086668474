"""From bytes of Kafka to rows of the table of ``action_counts``, without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from spark_jobs.action_counts.declaration import ACTION_COUNTS, JOB
from spark_jobs.action_counts.logic import CountLogic
from spark_jobs.action_counts.model import ActionEvent, Count, CountSettings
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
# The declaration looks at the section `logic` alone.
CONFIG = cast(Config, SimpleNamespace(logic={"idle_ms": 300_000, "max_held_events": 100}))


def record(number: int, **changes: Any) -> bytes:
    fields = {
        "event_id": f"e{number}",
        "user_id": "u",
        "event_type": "click",
        "event_time": f"2026-01-01T00:00:{number:02}Z",
        **changes,
    }
    return json.dumps({name: value for name, value in fields.items() if value != "absent"}).encode()


def parsed(value: bytes) -> Parsed | Rejection:
    return Parser(JOB.fields(CONFIG), BOUNDS).parse(value, TODAY_MS)


def event_of(value: bytes) -> ActionEvent:
    verdict = parsed(value)
    assert isinstance(verdict, Parsed), verdict
    return ActionEvent(*JOB.event(verdict.record, verdict.event_ms))


def test_the_settings_reach_the_logic_and_the_clock_the_driver() -> None:
    config = parse_config(resolved_configuration(load_spec("action_counts"), Settings(), "r1"), "test")

    assert JOB.logic(config) == CountLogic(CountSettings())
    assert config.in_processing_time
    assert config.watermark_delay_ms == 0
    assert set(config.tables) >= {output.table.name for output in JOB.outputs}


def test_a_record_of_user_sessions_is_one_of_this_stream_too() -> None:
    value = record(3, is_last=True, timeout_s=5, more=1)
    assert event_of(value) == ActionEvent("e3", TODAY_MS + 3000, "click")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"event_type": "absent"}, Reason.MISSING_FIELD),
        ({"event_type": 1}, Reason.WRONG_TYPE),
        ({"user_id": " "}, Reason.EMPTY_FIELD),
        ({"event_time": "absent"}, Reason.MISSING_FIELD),
        ({"event_time": "2026-01-01T00:00:00"}, Reason.EVENT_TIME_UNPARSABLE),
    ],
)
def test_a_bad_record_is_a_dead_letter(changes: dict[str, Any], reason: Reason) -> None:
    verdict = parsed(record(3, **changes))
    assert isinstance(verdict, Rejection)
    assert verdict.reason == reason


def test_what_is_kept_survives_its_encoding() -> None:
    kept = KeyState(Count(1, 2, 3, "ü", "e"), (ActionEvent("h", 12, "click"),), (Seen("a", 1),), 5)
    codec: KeptCodec[Count, ActionEvent] = KeptCodec(Count, ActionEvent)

    assert codec.decode(codec.encode(kept)) == kept


def test_rows_fit_the_table(tmp_path: Path) -> None:
    events = [event_of(record(number, event_type=name)) for number, name in enumerate(("view", "buy"))]
    rows = replay_oracle(JOB.logic(CONFIG), "u", events)

    final = decode_rows(encode_rows(ACTION_COUNTS, rows)).to_pylist()[-1]
    assert (final["action_count"], final["last_action"], final["is_final"]) == (2, "TIMEOUT", True)
    assert final["updated_at"].isoformat() == "2026-01-01T00:05:01+00:00"

    (output,) = JOB.outputs
    renamed = [name.replace("_ms", "_at") for name in output.row.__annotations__]
    uri = f"file://{tmp_path}/action_counts"
    ACTION_COUNTS.create(uri)
    fields = DeltaTable(uri).schema().fields
    assert [field.name for field in fields] == renamed == list(final)
    assert all(field.metadata["comment"] for field in fields)
