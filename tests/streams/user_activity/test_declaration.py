"""What is particular to the records and rows of ``user_activity``, without an engine."""

from __future__ import annotations

import pytest

from spark_jobs.user_activity.declaration import JOB
from spark_jobs.user_activity.logic import ActivityLogic
from spark_jobs.user_activity.model import ActivityEvent, ActivitySettings
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.sink.output_rows import decode_rows, encode_rows
from stateward.testing.declarations import TODAY_MS, Records

RECORDS = Records("user_activity")


def test_the_settings_reach_the_logic() -> None:
    assert JOB.logic(RECORDS.config) == ActivityLogic(ActivitySettings())


@pytest.mark.parametrize("activity", ["login", "logout", "LOGIN", "lunch"])
def test_a_record_becomes_an_event_whatever_its_activity(activity: str) -> None:
    assert RECORDS.event(3, activity=activity, more=1) == ActivityEvent("e3", TODAY_MS + 3250, activity)


def test_the_rows_of_a_session_and_of_what_belongs_to_none() -> None:
    activities = ["login", "logout", "logout", "lunch"]
    events = [RECORDS.event(number, activity=name) for number, name in enumerate(activities)]
    rows = replay_oracle(JOB.logic(RECORDS.config), "u", events)

    sessions, anomalies = (
        decode_rows(encode_rows(output.table, [row for row in rows if type(row) is output.row])).to_pylist()
        for output in JOB.outputs
    )
    (session,) = sessions
    assert (session["session_count"], session["duration_ms"], session["close_reason"]) == (1, 1000, "LOGOUT")
    assert session["logout_at"].isoformat() == "2026-01-01T00:00:01.250000+00:00"
    assert [(row["event_id"], row["reason"]) for row in anomalies] == [
        ("e2", "LOGOUT_WITHOUT_LOGIN"),
        ("e3", "UNKNOWN_ACTIVITY"),
    ]
