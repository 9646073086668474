"""Key filters: with any rules every key belongs to exactly one stream."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from spark_jobs.user_sessions.declaration import JOB
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.key_filter import KeyFilter, takes
from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.runtime.ingest.packed_format import LANE_EVENT, LANE_OTHER, LANE_TIMES
from stateward.runtime.ingest.record_decoder import DecoderTask, RecordDecoder
from tests.unit.runtime.telemetry.test_documents import CONFIG

Filters = tuple[KeyFilter, ...]
NOW = 1_800_000_000_000


def by_hash(salt: int) -> KeyFilter:
    return KeyFilter(f"hash {salt}", lambda key: zlib.crc32(f"{salt}{key}".encode()) % 3 == 0)


@st.composite
def divided(draw: st.DrawFn) -> list[Filters]:
    """The rules of all streams after some splits, each of any stream there was."""
    streams: list[Filters] = [()]
    for salt in range(draw(st.integers(1, 4))):
        rules = streams.pop(draw(st.integers(0, len(streams) - 1)))
        rule = by_hash(salt) if draw(st.booleans()) else by_hash(salt).others()
        streams += [(*rules, rule), (*rules, rule.others())]
    return streams


@given(streams=divided(), keys=st.lists(st.text(min_size=1)))
def test_every_key_is_one_streams_and_none_is_two_streams(streams: list[Filters], keys: list[str]) -> None:
    for key in keys:
        assert sum(takes(rules, key) for rules in streams) == 1


def test_a_rule_says_whose_keys_are_meant() -> None:
    large = KeyFilter("large customers", lambda key: True)
    assert (str(large), str(large.others())) == ("large customers", "all but large customers")
    assert large.others().others() == large


def message(offset: int, user: str, minute: int, *, good: bool = True) -> Message:
    fields = {"event_id": f"e{offset}", "user_id": user, "event_type": "view"}
    at = {"event_time": f"2024-01-01T00:{minute:02}:00Z"}
    value = json.dumps({**fields, **(at if good else {})}).encode()
    return Message(partition=offset % 2, offset=offset, key=b"k", value=value, timestamp=(1, NOW))


def is_even(key: str) -> bool:
    return int(key) % 2 == 0


@pytest.mark.parametrize("rest", [False, True])
def test_events_of_other_streams_are_counted_and_move_time_on(rest: bool) -> None:
    config = structs.replace(parse_config(CONFIG, "test"), logic={"gap_ms": 1, "max_gap_ms": 1})
    job = replace(JOB, only=(KeyFilter("even users", is_even, rest),))
    load = DecoderTask(RecordDecoder.of(config, job), PlannedBatch(7, {}, 0, NOW))
    messages = [message(number, str(number), number) for number in range(10)]
    messages.append(message(10, "10", 0, good=False))
    load.take(messages)
    rows = [row for batch in load.rows() for row in batch.to_pylist()]

    found = {
        lane: sum(row["records"] for row in rows if row["lane"] == lane) for lane in (LANE_EVENT, LANE_OTHER)
    }
    assert found == {LANE_EVENT: 5, LANE_OTHER: 5}
    [times] = [json.loads(row["payload"]) for row in rows if row["lane"] == LANE_TIMES]
    minutes = {partition: at // 60_000 % 60 for partition, at in times["newest"].items()}
    assert minutes == {"0": 8, "1": 9}, "a stream waits for the events of all keys"
