"""The truth about traffic under the settings that `include/streams` has for each stream."""

from __future__ import annotations

from include.control.launch import resolved_configuration
from include.settings import Settings
from include.spec import load_spec
from spark_jobs.runtime.config import parse_config
from spark_jobs.truth.expected import StreamTruth
from spark_jobs.truth.registry import truth_about

STREAMS = {
    "user_sessions": "user_events",
    "user_activity": "user_activity",
    "fraud_watch": "payments",
    "device_lifecycle": "device_readings",
    "intrusion_patterns": "security_events",
}
"""By stream its topic: those by event time whose logic works on one key."""

RECORDED_MS = 1_800_000_000_000


def truth_of(stream: str) -> StreamTruth:
    """What finds out the truth about a stream."""
    document = resolved_configuration(load_spec(stream), Settings(), "test")
    return truth_about(parse_config(document, "test"), RECORDED_MS)
