"""The expected tables and counts of each stream, from the records sent and their place in Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from proof.chaos.feed import Feed
from proof.truth.expected import Expected
from proof.truth.registry import truth_about
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec
from stateward.runtime.api.config import parse_config
from tests.support.streams.oracle import STREAMS
from tests.support.streams.traced import COUNTS

LANDING = "raw_events"
TOPICS: Mapping[str, str | None] = {**STREAMS, LANDING: None}
"""The topic that each stream needs; a stream that lands every topic needs none."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POLL_S = 30.0


class Found(NamedTuple):
    """One record in Kafka."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None


def topics_of(streams: Sequence[str]) -> tuple[str, ...]:
    """The topics to generate traffic for; one if no stream needs a particular one."""
    return tuple(dict.fromkeys(topic for name in streams if (topic := TOPICS[name]))) or ("user_events",)


def expected_of(
    spec: StreamSpec, settings: Settings, feeds: Sequence[Feed], kafka: Sequence[Found], began_ms: int
) -> Expected:
    """The expected output of a stream; `counts` includes `tick_records`.

    Args:
        spec: The stream.
        settings: Its installation.
        feeds: The traffic.
        kafka: The records in the topics.
        began_ms: When the run started; records too far ahead then were too far ahead when sent.
    """
    if spec.stream == LANDING:
        counts = {**dict.fromkeys(COUNTS, 0), "accepted": len(kafka)}
        return Expected({LANDING: [_landed(one) for one in kafka]}, counts, [], [], 0)
    config = parse_config(resolved_configuration(spec, settings, "chaos"), "chaos")
    truth = truth_about(config, began_ms)
    (feed,) = [feed for feed in feeds if feed.topic == config.topic]
    for record in feed.sent:
        truth.see(record)
    expected = truth.finish()
    expected.counts["tick_records"] = len(feed.ticks)
    return expected


def in_kafka(bootstrap: str, feeds: Iterable[Feed]) -> list[Found]:
    """Read all topics from their start to their current end."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "chaos", "fetch.message.max.bytes": 16 << 20}
    )
    try:
        return [
            found
            for feed in feeds
            for partition in range(feed.partitions)
            for found in _partition(consumer, feed.topic, partition)
        ]
    finally:
        consumer.close()


def wrongly_sent(feeds: Sequence[Feed], kafka: Sequence[Found]) -> dict[str, Any]:
    """Check the test itself: each sent record is in its topic exactly once."""
    sent: Counter[tuple[str, bytes | None, bytes | None]] = Counter(
        (feed.topic, key, value)
        for feed in feeds
        for key, value in [*((one.key, one.value) for one in feed.sent), *feed.ticks]
    )
    there: Counter[tuple[str, bytes | None, bytes | None]] = Counter(
        (one.topic, one.key, one.value) for one in kafka
    )
    if sent == there:
        return {}
    missing, surplus = sent - there, there - sent
    return {"topics": {"missing": missing.total(), "surplus": surplus.total()}}


def _partition(consumer: Any, topic: str, partition: int) -> list[Found]:
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_POLL_S)
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Found] = []
    while not found or found[-1].offset < end - 1:
        if not end:
            break
        message = consumer.poll(_POLL_S)
        assert message is not None, f"{topic}-{partition}: nothing came before offset {end}"
        assert message.error() is None, message.error()
        place = topic, partition, message.offset(), message.timestamp()[1]
        found.append(Found(*place, message.key(), message.value()))
    return found


def _landed(found: Found) -> dict[str, Any]:
    at = _EPOCH + timedelta(milliseconds=found.at_ms)
    return {
        "topic": found.topic,
        "partition": found.partition,
        "offset": found.offset,
        "record_timestamp": at,
        "date": at.date(),
        "key": found.key,
        "value": found.value,
        "header_names": None,
        "header_values": None,
        "record_timestamp_ms": None,
    }
