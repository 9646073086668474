"""Records of several topics in one task: each is a dead letter, late or an event of its own topic."""

from __future__ import annotations

import json
import marshal
from typing import Any

import pytest
from confluent_kafka import Message

from spark_jobs.user_sessions.declaration import JOB
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.key_logic import KeyResult, KeyState
from stateward.runtime.api.record_fields import TICK_KEY
from stateward.runtime.api.tables import LATE_EVENTS
from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.runtime.ingest.event_rows import EventRowDecoder, EventRowTask
from stateward.runtime.ingest.packed_format import LANE_DEAD, LANE_EVENT, LANE_TIMES
from stateward.runtime.ingest.record_decoder import DecoderTask, RecordDecoder
from stateward.runtime.kafka import reader
from stateward.runtime.kafka.late_values import LateValues
from stateward.runtime.keyed.outcome import BucketOutput
from stateward.runtime.sink.output_rows import decode_rows
from stateward.runtime.watermark.admission import Admission
from stateward.runtime.watermark.partition_times import times_from_json
from stateward.runtime.watermark.topic_partitions import Topics
from tests.unit.runtime.telemetry.test_documents import CONFIG

TOPICS = Topics(("web", "app"))
NOW = 1_800_000_000_000
CONFIGURED = parse_config({**CONFIG, "logic": {"gap_ms": 1000, "max_gap_ms": 1000}}, "test")


def message(topic: str, offset: int, value: bytes, key: bytes = b"k") -> Message:
    return Message(topic=topic, partition=1, offset=offset, key=key, value=value, timestamp=(2, NOW - offset))


def event(event_id: str, at: str = "2020-01-01T00:00:00Z") -> bytes:
    found = {"event_id": event_id, "user_id": "u", "event_type": "view", "event_time": at}
    return json.dumps(found).encode()


def decoded(watermark_ms: int) -> list[dict[str, Any]]:
    decoder = RecordDecoder(
        owner=JOB.owner,
        fields=JOB.fields(CONFIGURED),
        bounds=CONFIGURED.bounds,
        event=JOB.event,
        buckets=1,
        topics=TOPICS,
        checkpoint_uri="",
    )
    task = DecoderTask(decoder, PlannedBatch(7, {}, watermark_ms, NOW))
    for topic in TOPICS.names:
        task.begin(topic, [1])
        end = json.dumps({"tick": "2021-01-01T00:00:00Z"}).encode()
        task.take(
            [
                message(topic, 4, event(f"{topic}-4")),
                message(topic, 5, b"junk"),
                message(topic, 6, end, TICK_KEY.encode()),
            ]
        )
    return [row for batch in task.rows() for row in batch.to_pylist()]


def test_events_have_the_slots_of_their_topics_and_times_their_names() -> None:
    rows = decoded(0)
    events = [one for row in rows if row["lane"] == LANE_EVENT for one in marshal.loads(row["payload"])]
    assert [(one[5], TOPICS.place(one[1]), one[2]) for one in events] == [
        ("web-4", ("web", 1), 4),
        ("app-4", ("app", 1), 4),
    ]
    (times,) = (times_from_json(json.loads(row["payload"])) for row in rows if row["lane"] == LANE_TIMES)
    at_ms = 1_577_836_800_000
    assert times.newest == {"web/1": at_ms, "app/1": at_ms}
    assert times.ended == {"web/1": (6, 1_609_459_200_000), "app/1": (6, 1_609_459_200_000)}
    assert (times.seen, times.records) == ({"web/1": NOW - 6, "app/1": NOW - 6}, 6)


def test_dead_letters_name_their_topics_and_partitions() -> None:
    letters = [decode_rows(row["payload"]).to_pylist() for row in decoded(0) if row["lane"] == LANE_DEAD]
    found = [(one["topic"], one["partition"], one["offset"]) for rows in letters for one in rows]
    assert found == [("web", 1, 5), ("app", 1, 5)]


def test_late_events_name_theirs_and_find_their_values_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def read(bootstrap: str, wanted: Any) -> Any:
        asked.extend((one.topic, one.begin) for one in wanted)
        yield [message(one.topic, one.begin, one.topic.encode()) for one in wanted]

    monkeypatch.setattr(reader, "read", read)
    outcome = BucketOutput((), TOPICS, 9, LateValues("none:1", TOPICS))
    records = [("u", TOPICS.slot(topic, 1), 7, NOW, raw) for topic in TOPICS.names for raw in (None, b"kept")]
    events = [JOB.event_type(f"e{number}", 5, "view", False, None) for number in range(4)]
    late = Admission((), (), (), None, 0, 0, tuple(events))
    outcome.add("u", KeyResult(KeyState(), [], late), events, records)

    ((name, count, rows),) = [part for part in outcome.parts() if part[0] == LATE_EVENTS.name]
    assert (name, count, sorted(asked)) == ("late_events", 4, [("app", 7), ("web", 7)])
    found = [
        (one["topic"], one["partition"], one["offset"], one["value"]) for one in decode_rows(rows).to_pylist()
    ]
    assert found == [
        ("web", 1, 7, b"web"),
        ("web", 1, 7, b"kept"),
        ("app", 1, 7, b"app"),
        ("app", 1, 7, b"kept"),
    ]


def test_a_native_streams_late_events_name_theirs_too() -> None:
    decoder = EventRowDecoder("user_id", JOB.fields(CONFIGURED), CONFIGURED.bounds, TOPICS, "")
    task = EventRowTask(decoder, PlannedBatch(7, {}, NOW, NOW))
    for topic in TOPICS.names:
        task.begin(topic, [1])
        task.take([message(topic, 4, event(f"{topic}-4"))])
    rows = [row for batch in task.rows() for row in batch.to_pylist() if row["_kind"] == LATE_EVENTS.name]
    found = [one for row in rows for one in decode_rows(row["_data"]).to_pylist()]
    assert [(one["topic"], one["partition"], one["event_id"]) for one in found] == [
        ("web", 1, "web-4"),
        ("app", 1, "app-4"),
    ]
