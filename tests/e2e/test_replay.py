"""`stateward replay` against a real broker: what is in the topic afterwards."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from stateward.replay.records import TICK_KEY
from tests.support.control.installation import STATEWARD
from tests.support.kafka.broker import RunningBroker

pytestmark = pytest.mark.e2e

LINES = [
    b'{"user_id": "a", "event_time": "2020-01-01T00:00:00Z"}',
    b'{"user_id": "a", "event_time": "2020-01-01T01:00:00Z"}',
    b'{"user_id": "b", "event_time": "2999-01-01T00:00:00Z"}',
    b"\xff\xfe neither UTF-8 nor JSON",
    b"",
    b'{"user_id": "big", "pad": "' + b"x" * 5 * 1024 * 1024 + b'"}',
]


def replay(broker: RunningBroker, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = dict.fromkeys(("STATEWARD_KAFKA_BOOTSTRAP", "STATEWARD_CREATE_TOPICS_AT"), broker.bootstrap)
    environ = {**os.environ, **where}
    command = [STATEWARD, "replay", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def read_all(broker: RunningBroker, topic: str) -> dict[int, list[tuple[bytes | None, bytes]]]:
    """Return (key, value) of every record of a topic, by partition, in order."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "fetch.message.max.bytes": 16 << 20}
    )
    try:
        result: dict[int, list[tuple[bytes | None, bytes]]] = {}
        for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            consumer.assign([TopicPartition(topic, partition, 0)])
            result[partition] = []
            while len(result[partition]) < end:
                message = consumer.poll(20)
                assert message is not None and message.error() is None, message
                result[partition].append((message.key(), message.value() or b""))
        return result
    finally:
        consumer.close()


def test_every_line_arrives_as_it_is_and_ticks_end_every_partition(
    broker: RunningBroker, tmp_path: Path
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(LINES) + b"\n")
    run = replay(broker, str(file), "--topic", "replayed", "--tick", "--tick-after", "90m")
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].startswith(
        f"sent {len(LINES)} records to replayed (2 without a key), 0 failed"
    )
    found = read_all(broker, "replayed")
    assert len(found) == 3
    for partition, records in found.items():
        key, value = records.pop()
        assert key == TICK_KEY, f"partition {partition} ends with the tick"
        assert json.loads(value) == {"tick": "2020-01-01T02:30:00.000Z"}, "2999 is no event's time"
    everything = [record for records in found.values() for record in records]
    assert sorted(value for _, value in everything) == sorted(LINES)
    of_a = [partition for partition, records in found.items() if any(key == b"a" for key, _ in records)]
    assert len(of_a) == 1, "one key, one partition"
    assert [value for key, value in found[of_a[0]] if key == b"a"] == LINES[:2], "in the order of the file"


def test_a_record_that_no_broker_takes_is_an_error(broker: RunningBroker, tmp_path: Path) -> None:
    file = tmp_path / "huge"
    file.write_bytes(b"x" * (17 * 1024 * 1024) + b"\nsmall\n")
    run = replay(broker, str(file), "--topic", "huge")
    assert run.returncode == 1
    assert "1 records arrived, 1 did not" in run.stderr


def test_a_tick_without_any_event_time_is_an_error(broker: RunningBroker, tmp_path: Path) -> None:
    file = tmp_path / "bad"
    file.write_bytes(b"no json\n")
    run = replay(broker, str(file), "--topic", "no_times", "--tick")
    assert run.returncode == 1
    assert "event_time" in run.stderr


def test_a_missing_file_is_named_before_a_topic_is_made(broker: RunningBroker) -> None:
    run = replay(broker, "/no/such/file", "--topic", "never_made")
    assert run.returncode == 1
    assert "/no/such/file" in run.stderr
    assert "Traceback" not in run.stderr
