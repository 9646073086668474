"""The streams of keyed logic with durations scaled down, so that few events meet every timeout."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from spark_jobs.action_counts import declaration as action_counts
from spark_jobs.action_counts.logic import CountLogic
from spark_jobs.action_counts.model import ActionEvent, CountSettings
from spark_jobs.device_lifecycle import declaration as device_lifecycle
from spark_jobs.device_lifecycle.machine import DeviceMachine
from spark_jobs.device_lifecycle.model import DeviceReading, DeviceSettings
from spark_jobs.fraud_watch import declaration as fraud_watch
from spark_jobs.fraud_watch.machine import FraudMachine
from spark_jobs.fraud_watch.model import FraudSettings, PaymentEvent
from spark_jobs.intrusion_patterns import declaration as intrusion_patterns
from spark_jobs.intrusion_patterns.logic import IntrusionLogic
from spark_jobs.intrusion_patterns.model import Pattern, SecurityEvent
from spark_jobs.user_activity import declaration as user_activity
from spark_jobs.user_activity.logic import ActivityLogic
from spark_jobs.user_activity.model import ActivityEvent, ActivitySettings
from spark_jobs.user_sessions import declaration as user_sessions
from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import SessionEvent
from stateward.project.project import Project
from stateward.runtime.api.any_job import writing
from stateward.runtime.api.stream_job import StreamJob
from stateward.testing.cases import Case, case_of

SETTINGS: Mapping[str, Mapping[str, int]] = {
    "action_counts": {"idle_ms": 600},
    "device_lifecycle": {"offline_after_ms": 600, "forget_after_ms": 1500},
    "event_windows": {"size_ms": 1000, "slide_ms": 250},
    "fraud_watch": {
        "velocity_count": 3,
        "velocity_amount": 50,
        "velocity_window_ms": 600,
        "authentication_window_ms": 300,
        "idle_ms": 1000,
        "review_ms": 2500,
        "safety_ms": 3000,
    },
    "intrusion_patterns": {"horizon_ms": 2500},
    "payment_auth_join": {"before_ms": 300, "after_ms": 300},
    "session_windows": {"gap_ms": 400},
    "user_activity": {"session_timeout_ms": 800, "counter_idle_ms": 2000},
    "user_sessions": {"gap_ms": 1000, "max_gap_ms": 2500},
}
"""By stream its settings, with durations of about a second."""
TEXTS: Mapping[str, st.SearchStrategy[str]] = {
    "action_counts": st.sampled_from("xyz"),
    "device_lifecycle": st.sampled_from(("running", "running", "idle", "error", "retired", "odd")),
    "fraud_watch": st.sampled_from(
        ("transaction",) * 5 + ("authenticated", "review_confirmed", "case_closed", "refund")
    ),
    "user_activity": st.sampled_from(("login", "login", "logout", "logout", "lunch")),
    "user_sessions": st.sampled_from("xy"),
}
"""By stream the types of its events."""

_MICROS = 1_000_000
_STEPS = ("scan", "failure", "escalation")


CASES = {
    "action_counts": Case(
        action_counts.JOB,
        CountLogic(CountSettings(**SETTINGS["action_counts"])),
        ActionEvent,
        (TEXTS["action_counts"],),
    ),
    "user_sessions": Case(
        user_sessions.JOB,
        SessionLogic(SETTINGS["user_sessions"]["gap_ms"]),
        SessionEvent,
        (
            TEXTS["user_sessions"],
            st.integers(0, 6).map(lambda number: number == 0),
            st.none() | st.integers(1, 2500),
        ),
    ),
    "user_sessions with its optional tables": Case(
        writing(user_sessions.JOB, [one.table.name for one in user_sessions.JOB.optional_outputs]),
        SessionLogic(SETTINGS["user_sessions"]["gap_ms"], max_events=2, with_updates=True),
        SessionEvent,
        (TEXTS["user_sessions"], st.sampled_from((False,) * 5 + (True,)), st.none() | st.integers(1, 2500)),
    ),
    "user_activity": Case(
        user_activity.JOB,
        ActivityLogic(ActivitySettings(**SETTINGS["user_activity"])),
        ActivityEvent,
        (TEXTS["user_activity"],),
    ),
    "fraud_watch": Case(
        fraud_watch.JOB,
        FraudMachine(FraudSettings(**SETTINGS["fraud_watch"])),
        PaymentEvent,
        (TEXTS["fraud_watch"], st.integers(0, 30).map(lambda amount: amount * _MICROS)),
    ),
    "device_lifecycle": Case(
        device_lifecycle.JOB,
        DeviceMachine(DeviceSettings(**SETTINGS["device_lifecycle"])),
        DeviceReading,
        (TEXTS["device_lifecycle"], st.none() | st.sampled_from(("E1", "E2"))),
    ),
    "intrusion_patterns": Case(
        intrusion_patterns.JOB,
        IntrusionLogic(
            (
                Pattern("long", _STEPS, 1200, "Look."),
                Pattern("short", ("failure", "escalation"), 400, "Look."),
            )
        ),
        SecurityEvent,
        (st.sampled_from((*_STEPS, "other")),),
    ),
}


CASES |= {
    name: case_of(name)
    for name in Project.imported().streams()
    if name not in CASES and isinstance(Project.imported().declaration(name), StreamJob)
}
