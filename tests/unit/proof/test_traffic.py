"""Generated traffic: the same bytes each time, and what each part of it is made for."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from random import Random

import pytest

from proof.traffic.arrival_process import zipf_bounds
from proof.traffic.generate import LONGEST_DELAY_MS, LONGEST_STORY, NEEDED_LATENESS, SLICE_MS, Plan, Traffic
from proof.traffic.profiles import PROFILES, UnknownProfileError, profile_named
from proof.traffic.records import DEAD, DUPLICATE, EVENT, LATE, MARKS, Clock, Record, from_ms, values_of
from proof.traffic.topics.malformed import KINDS, Draft, malformed, oversized
from proof.traffic.topics.registry import TOPICS, UnknownTopicError
from proof.traffic.topics.scenarios import Story, Topic
from proof.truth.expected import Expected
from stateward.runtime.api.record_fields import Reason
from tests.support.streams.oracle import STREAMS, declared_fields, truth_of

STORM = PROFILES["storm"]
AT_MS = 1_736_121_600_000
PLAN = Plan(dataclasses.replace(STORM, oversized=0, keys=50), rate=25, minutes=1)


def made(plan: Plan) -> list[tuple[str, Record]]:
    traffic = Traffic(plan)
    return [*values_of(traffic.slices()), *values_of(traffic.late())]


@cache
def sample() -> list[tuple[str, Record]]:
    return made(PLAN)


def time_of(record: Record) -> datetime:
    assert record.value is not None
    return datetime.fromisoformat(json.loads(record.value)["event_time"])


def test_the_same_plan_makes_the_same_bytes_and_another_seed_others() -> None:
    assert sample() == made(PLAN)
    assert sample() != made(dataclasses.replace(PLAN, seed=2))


def test_there_are_as_many_records_as_the_rate_says() -> None:
    found = Counter(record.mark for _, record in sample())
    assert found[EVENT] + found[DUPLICATE] + found[DEAD] == PLAN.total == 1500
    assert all(found[mark] for mark in MARKS)
    assert {topic for topic, _ in sample()} == set(TOPICS)


def test_a_topic_alone_gets_the_whole_rate() -> None:
    alone = made(dataclasses.replace(PLAN, topics=("payments",)))
    assert {topic for topic, _ in alone} == {"payments"}
    assert sum(record.mark != LATE for _, record in alone) == PLAN.total


@pytest.mark.parametrize("topic", TOPICS)
def test_ids_are_new_and_duplicates_repeat_an_event_byte_for_byte(topic: str) -> None:
    records = [record for name, record in sample() if name == topic]
    events = [record.value for record in records if record.mark == EVENT]
    ids = [json.loads(value)["event_id"] for value in events if value]
    assert len(set(ids)) == len(events)
    assert {record.value for record in records if record.mark == DUPLICATE} <= set(events)
    late = {
        json.loads(record.value)["event_id"] for record in records if record.mark == LATE and record.value
    }
    assert late.isdisjoint(ids)


def test_no_event_of_the_first_phase_is_late_whatever_a_slice_is_read_in() -> None:
    newest: dict[str, datetime] = {}
    disorder = 0
    for piece in Traffic(PLAN).slices():
        times = [time_of(record) for record in piece.records if record.mark in (EVENT, DUPLICATE)]
        seen = max([*times, newest.get(piece.topic, from_ms(0))])
        assert all(seen - time < NEEDED_LATENESS for time in times)
        disorder += sum(later < earlier for earlier, later in pairwise(times))
        newest[piece.topic] = seen
    assert disorder > 100
    assert NEEDED_LATENESS.total_seconds() * 1000 == SLICE_MS + LONGEST_DELAY_MS


def test_events_are_within_the_span_and_the_longest_story_and_late_ones_within_the_span() -> None:
    traffic = Traffic(PLAN)
    first = [time_of(record) for _, record in values_of(traffic.slices()) if record.mark == EVENT]
    assert PLAN.start <= min(first)
    assert max(first) <= PLAN.latest_end
    assert max(traffic.last_event.values()) == max(first)
    for _, record in values_of(traffic.late()):
        assert time_of(record) < min(traffic.last_event.values())


def test_so_few_records_that_a_topic_gets_none_are_made_too() -> None:
    few = made(Plan(PROFILES["quiet"], rate=0.05, minutes=1))
    assert sum(record.mark != LATE for _, record in few) == 3
    assert len({topic for topic, _ in few}) < len(TOPICS)


def test_a_few_users_do_much_and_none_too_much() -> None:
    plan = Plan(
        dataclasses.replace(PROFILES["daily"], stories=0), rate=100, minutes=1, topics=("user_events",)
    )
    keys = Counter(record.key for _, record in made(plan))
    counts = sorted(keys.values(), reverse=True)
    assert counts[0] > 20 * counts[-1]
    bounds = zipf_bounds(200, 0.8)
    assert bounds[0] < 0.03
    assert bounds[-1] == 1


def is_dead_to(stream: str, record: Record) -> bool:
    """Whether what is wrong with the record is in a field that the stream declares, or in no field."""
    return record.mark == DEAD and (record.field is None or record.field in declared_fields(stream))


@pytest.mark.parametrize("stream", STREAMS)
def test_every_record_is_what_its_mark_says(stream: str) -> None:
    truth = truth_of(stream)
    topic = STREAMS[stream]
    mine = [record for name, record in made(dataclasses.replace(PLAN, rate=10, topics=(topic,)))]
    for record in mine:
        truth.see(record)  # raises if the stream's parser sees it otherwise
    counts = truth.finish().counts
    assert sum(counts.values()) == len(mine)
    assert counts["dead"] == sum(is_dead_to(stream, record) for record in mine)


@pytest.mark.parametrize("stream", STREAMS)
def test_every_reason_for_a_dead_letter_occurs_and_is_the_one_named(stream: str) -> None:
    topic = TOPICS[STREAMS[stream]]
    truth = truth_of(stream)
    draft = Draft("e1", topic.key, "k", topic.ordinary.tell(Random(1))[0].members, "2025-01-06T00:00:00.000Z")
    broken = [malformed(topic, number, draft) for number in range(len(KINDS) + len(topic.broken))]
    for record in [*broken, oversized(draft)]:
        truth.see(record)
    found = truth.finish()
    dead = [record for record in broken if is_dead_to(stream, record)]
    assert found.counts["dead"] == len(dead) + 1
    # No stream of the project declares a field with a closed set of values.
    every = set(Reason) - {Reason.UNKNOWN_VALUE}
    expected = every if len(dead) == len(broken) else {record.reason for record in dead}
    assert {row["reason"] for row in found.dead_letters} == {*expected, Reason.RECORD_TOO_LARGE}


def test_what_is_wrong_in_a_field_that_a_stream_does_not_declare_is_an_event_to_it() -> None:
    truth = truth_of("user_activity")
    value = b'{"event_id":"e","user_id":"u","activity":"login","x":1,"event_time":"2025-01-06T00:00:00Z"}'
    truth.see(Record(DEAD, b"u", value, "wrong_type", "x"))
    assert truth.finish().counts["accepted"] == 1


def outcome(stream: str, story: Story, key: str = "k") -> Expected:
    """What comes of one story."""
    topic: Topic = TOPICS[STREAMS[stream]]
    truth = truth_of(stream)
    for number, step in enumerate(story.tell(Random(7))):
        at = Clock().iso(AT_MS + step.after_ms)
        draft = Draft(f"e{number:03d}", topic.key, key, step.members, at)
        truth.see(Record(EVENT, key.encode(), draft.value()))
    return truth.finish()


STORIES = [
    ("user_sessions", "checkout", "sessions", "close_reason", ["ENDED"]),
    ("user_sessions", "patient", "sessions", "event_count", [2]),
    ("user_sessions", "impatient", "sessions", "event_count", [1, 1]),
    ("user_sessions", "returning", "sessions", "event_count", [1, 1]),
    ("user_sessions", "lingering", "sessions", "event_count", [2]),
    ("user_activity", "visit", "activity_sessions", "close_reason", ["LOGOUT"]),
    ("user_activity", "forgetful", "activity_sessions", "close_reason", ["TIMEOUT"]),
    ("user_activity", "too_late", "activity_sessions", "close_reason", ["TIMEOUT"]),
    ("user_activity", "too_late", "activity_anomalies", "reason", ["LOGOUT_AFTER_TIMEOUT"]),
    ("user_activity", "relogin", "activity_sessions", "close_reason", ["RELOGIN", "LOGOUT"]),
    ("user_activity", "stray", "activity_anomalies", "reason", ["LOGOUT_WITHOUT_LOGIN"]),
    ("user_activity", "odd", "activity_anomalies", "reason", ["UNKNOWN_ACTIVITY"]),
    ("fraud_watch", "by_count", "fraud_alerts", "reason", ["VELOCITY_COUNT"]),
    ("fraud_watch", "by_count", "fraud_summaries", "close_reason", ["IDLE"]),
    ("fraud_watch", "by_amount", "fraud_alerts", "reason", ["VELOCITY_AMOUNT"]),
    ("fraud_watch", "confirmed", "fraud_alerts", "reason", ["VELOCITY_COUNT", "REVIEW_CONFIRMED"]),
    ("fraud_watch", "confirmed", "fraud_summaries", "close_reason", ["EXPIRED"]),
    ("fraud_watch", "closed", "fraud_summaries", "close_reason", ["CASE_CLOSED"]),
    ("fraud_watch", "again", "fraud_alerts", "kind", ["SUSPICIOUS", "FLAGGED"]),
    ("fraud_watch", "authenticated", "fraud_alerts", "kind", ["SUSPICIOUS"]),
    ("fraud_watch", "authenticated", "fraud_summaries", "state", ["watching"]),
    ("fraud_watch", "authenticated_late", "fraud_alerts", "kind", ["SUSPICIOUS", "FLAGGED"]),
    ("fraud_watch", "near_miss", "fraud_alerts", "kind", []),
    ("fraud_watch", "just_below", "fraud_alerts", "kind", []),
    ("device_lifecycle", "sleeper", "device_alerts", "kind", ["OFFLINE", "BACK_ONLINE", "OFFLINE"]),
    ("device_lifecycle", "nodder", "device_alerts", "kind", ["OFFLINE"]),
    ("device_lifecycle", "retired", "device_alerts", "kind", []),
    ("device_lifecycle", "retired", "device_status", "mode", ["retired"]),
    ("device_lifecycle", "failing", "device_status", "error_count", [22]),
    ("device_lifecycle", "odd", "device_alerts", "previous_mode", ["unknown"]),
    ("intrusion_patterns", "attack", "intrusion_alerts", "pattern", ["recon_to_escalation"]),
    ("intrusion_patterns", "patient", "intrusion_alerts", "duration_ms", [20 * 60_000 - 1]),
    ("intrusion_patterns", "noisy", "intrusion_alerts", "pattern", ["recon_to_escalation"]),
    ("intrusion_patterns", "too_slow", "intrusion_alerts", "pattern", []),
    ("intrusion_patterns", "wrong_order", "intrusion_alerts", "pattern", []),
    ("intrusion_patterns", "incomplete", "intrusion_alerts", "pattern", []),
]


@pytest.mark.parametrize(
    ("stream", "story", "table", "column", "values"), STORIES, ids=lambda value: str(value)[:20]
)
def test_a_story_brings_the_rows_it_is_told_for(
    stream: str, story: str, table: str, column: str, values: list[object]
) -> None:
    rows = outcome(stream, TOPICS[STREAMS[stream]].story(story)).tables[table]
    assert [row[column] for row in rows] == values


def test_every_story_is_in_the_table_above_and_ends_in_time() -> None:
    told = {(STREAMS[stream], story) for stream, story, *_ in STORIES}
    assert told == {(topic.name, story.name) for topic in TOPICS.values() for story in topic.stories}
    for topic in TOPICS.values():
        for story in (topic.ordinary, *topic.stories):
            for seed in range(20):
                steps = story.tell(Random(seed))
                assert 0 <= max(step.after_ms for step in steps) <= LONGEST_STORY.total_seconds() * 1000


def test_what_cannot_be_made_is_said_clearly() -> None:
    with pytest.raises(UnknownProfileError, match="quiet, daily, storm, found 'loud'"):
        profile_named("loud")
    with pytest.raises(UnknownTopicError, match="found nothing"):
        Plan(STORM, topics=("nothing",))
    with pytest.raises(ValueError, match="numbers above 0, found 0 and 5"):
        Plan(STORM, rate=0)
    with pytest.raises(ValueError, match="with a zone"):
        Plan(STORM, start=datetime(2025, 1, 1))  # noqa: DTZ001 - the zone is what is missing
    assert from_ms(0) == datetime(1970, 1, 1, tzinfo=UTC)
