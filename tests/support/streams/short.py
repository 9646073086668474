"""Every stream with its durations scaled down to about a second, so that few events meet every timeout.

Each writes its optional tables too.

What the processors tier has as Python objects (`cases.py`), as records and configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from proof.traffic.records import DEAD, DUPLICATE, EVENT, Record
from stateward.project.project import Project
from stateward.runtime.api.record_fields import Reason
from stateward.testing.cases import scaled_down
from tests.support.spark.launches import (
    ACTION_COUNTS,
    DEVICE_LIFECYCLE,
    EVENT_WINDOWS,
    FRAUD_WATCH,
    INTRUSION_PATTERNS,
    PAYMENT_AUTH_JOIN,
    RAW_EVENTS,
    SESSION_WINDOWS,
    USER_ACTIVITY,
    USER_SESSIONS,
    Stream,
    stream,
)
from tests.support.streams.cases import SETTINGS, TEXTS

START = datetime(2024, 3, 1, tzinfo=UTC)
LATENESS_MS = 400
# In which all events are; some ten times the shortest timeouts.
SPAN_MS = 5000
RECORDED_MS = int(START.timestamp() * 1000) + SPAN_MS
# Longer than any chain of the timeouts here.
QUIET = timedelta(minutes=5)

_KAFKA_KEYS = st.sampled_from((b"0", b"1", b"2", b"3", b"4", b"5"))


@dataclass(frozen=True)
class Short:
    """A stream and what its events say.

    Attributes:
        stream: The stream, with short durations.
        values: By field what an event may say beside id, key and time; a None is left out.
    """

    stream: Stream
    values: Mapping[str, st.SearchStrategy[Any]]


def _short(of: Stream, values: Mapping[str, st.SearchStrategy[Any]]) -> Short:
    return Short(replace(of.in_full, logic={**of.logic, **SETTINGS[of.name]}), values)


SHORT: tuple[Short, ...] = (
    _short(
        USER_SESSIONS,
        {
            "event_type": TEXTS["user_sessions"],
            "is_last": st.sampled_from((None,) * 4 + (False, True)),
            "timeout_s": st.sampled_from((None, None, 0.3, 1.2, 2.5)),
        },
    ),
    _short(USER_ACTIVITY, {"activity": TEXTS["user_activity"]}),
    _short(
        FRAUD_WATCH,
        {"kind": TEXTS["fraud_watch"], "amount": st.sampled_from((None, 0, 9.99, 30, 49.5))},
    ),
    _short(
        DEVICE_LIFECYCLE,
        {"status": TEXTS["device_lifecycle"], "error_code": st.sampled_from((None, "E1", "E2"))},
    ),
    _short(
        INTRUSION_PATTERNS,
        {"kind": st.sampled_from(("recon_scan", "auth_failure", "privilege_escalation", "port_open"))},
    ),
    # By event time here: what it computes can be compared with an oracle then.
    _short(ACTION_COUNTS, {"event_type": TEXTS["action_counts"]}),
    _short(
        EVENT_WINDOWS,
        {
            "event_type": st.sampled_from(("view", "click", "Öffnen")),
            "value": st.sampled_from((None, 0, -7, 0.1, -0.3, 1e11 / 3)),
        },
    ),
    _short(
        PAYMENT_AUTH_JOIN,
        {
            "kind": st.sampled_from(("transaction", "transaction", "authenticated", "case_closed")),
            "amount": st.sampled_from((None, 10, 0.1)),
        },
    ),
    _short(SESSION_WINDOWS, {"event_type": TEXTS["user_sessions"]}),
)


def derived(name: str) -> Short:
    """A stream that has no entry above, from its settings and the fields of its records."""
    found = stream(name)
    config: Any = SimpleNamespace(logic=found.logic)
    values = {
        field.name: _BY_KIND[field.kind] if field.required else st.none() | _BY_KIND[field.kind]
        for field in found.job.fields(config)
        if field.name not in ("event_id", "event_time", found.job.key.name)
    }
    return Short(replace(found, logic=scaled_down(dict(found.logic))), values)


_BY_KIND = {"text": st.sampled_from("xyz"), "flag": st.booleans(), "number": st.integers(0, 30)}
SHORT += tuple(
    derived(name)
    for name in Project.imported().streams()
    if name not in {RAW_EVENTS.name, *(short.stream.name for short in SHORT)}
)


@st.composite
def arriving(draw: st.DrawFn, short: Short) -> list[Record]:
    """Records in the order they are sent: by event time plus a delay of at most the lateness.

    Some come twice, some are no events. Kafka's key is not the stream's, so that a key's events are in any
    partition.
    """
    key_name = short.stream.job.key.name
    delay = st.integers(0, LATENESS_MS)
    event = st.tuples(
        st.sampled_from("abcdef"),
        st.integers(0, SPAN_MS),
        st.fixed_dictionaries(dict(short.values)),
        st.lists(delay, min_size=1, max_size=2),
        _KAFKA_KEYS,
    )
    found: list[tuple[int, Record]] = []
    # An example takes seconds, so not of the simplest ones, with which Hypothesis begins.
    events = st.lists(event, min_size=25, max_size=100).filter(lambda all_: len({one[0] for one in all_}) > 3)
    for number, said in enumerate(draw(events)):
        key, at_ms, values, delays, kafka_key = said
        value = _value({"event_id": f"e{number}", key_name: key, **values}, at_ms)
        # If an event is sent twice, either record may be the duplicate.
        for mark, delay_ms in zip((EVENT, DUPLICATE), delays, strict=False):
            found.append((at_ms + delay_ms, Record(mark, kafka_key, value)))
    for at_ms in draw(st.lists(st.integers(0, SPAN_MS), max_size=2)):
        found.append((at_ms, Record(DEAD, b"junk", b"junk", Reason.MALFORMED_JSON)))
    return [record for _, record in sorted(found, key=lambda arrival: arrival[0])]


def _value(fields: dict[str, Any], at_ms: int) -> bytes:
    at = (START + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    said = {name: value for name, value in fields.items() if value is not None}
    return json.dumps({**said, "event_time": at}).encode()
