"""What is particular to the records and rows of ``action_counts``, without an engine."""

from __future__ import annotations

from spark_jobs.action_counts.declaration import ACTION_COUNTS, JOB
from spark_jobs.action_counts.logic import CountLogic
from spark_jobs.action_counts.model import ActionEvent, CountSettings
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.sink.output_rows import decode_rows, encode_rows
from stateward.testing.declarations import TODAY_MS, Records, config_of

RECORDS = Records("action_counts")


def test_the_settings_reach_the_logic_and_the_clock_the_driver() -> None:
    config = config_of("action_counts")
    assert JOB.logic(config) == CountLogic(CountSettings())
    assert config.in_processing_time
    assert config.watermark_delay_ms == 0


def test_a_record_of_user_sessions_is_one_of_this_stream_too() -> None:
    event = RECORDS.event(3, event_type="click", is_last=True, timeout_s=5, more=1)
    assert event == ActionEvent("e3", TODAY_MS + 3250, "click")


def test_the_final_row_has_the_count_and_the_end_of_the_pause() -> None:
    events = [RECORDS.event(number, event_type=name) for number, name in enumerate(("view", "buy"))]
    rows = replay_oracle(JOB.logic(RECORDS.config), "u", events)

    final = decode_rows(encode_rows(ACTION_COUNTS, rows)).to_pylist()[-1]
    assert (final["action_count"], final["last_action"], final["is_final"]) == (2, "TIMEOUT", True)
    assert final["updated_at"].isoformat() == "2026-01-01T00:05:01.250000+00:00"
