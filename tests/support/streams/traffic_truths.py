"""The truth about traffic under the settings that `include/streams` has for each stream."""

from __future__ import annotations

import importlib

from proof.truth.expected import StreamTruth
from proof.truth.registry import truth_about
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from stateward.runtime.api.config import Config, parse_config

STREAMS = {
    "user_sessions": "user_events",
    "user_activity": "user_activity",
    "fraud_watch": "payments",
    "device_lifecycle": "device_readings",
    "intrusion_patterns": "security_events",
    "event_windows": "user_events",
    "payment_auth_join": "payments",
}
"""By stream its topic: those by event time."""

RECORDED_MS = 1_800_000_000_000


def truth_of(stream: str) -> StreamTruth:
    """What finds out the truth about a stream."""
    return truth_about(_config(stream), RECORDED_MS)


def declared_fields(stream: str) -> set[str]:
    """Names of the fields that a stream reads."""
    job = importlib.import_module(f"spark_jobs.{stream}.declaration").JOB
    return {field.name for field in job.fields(_config(stream))}


def _config(stream: str) -> Config:
    return parse_config(resolved_configuration(load_spec(stream), Settings(), "test"), "test")
