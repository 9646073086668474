"""`python -m proof.traffic` against a real broker: what is in the topic, and what is written beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from proof.traffic.generate import Plan, Traffic
from proof.traffic.profiles import PROFILES
from proof.traffic.records import values_of
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_status import Status
from stateward.replay.records import TICK_KEY
from tests.e2e.test_replay import read_all
from tests.support.kafka.broker import RunningBroker
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

PLAN = Plan(PROFILES["daily"], seed=5, rate=30, minutes=1, topics=("payments",))
# What is said of a topic that was made a moment ago.
NEW = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
OPTIONS = ("--profile", "daily", "--seed", "5", "--rate", "30", "--minutes", "1", "--topic", "payments")


def traffic(broker: RunningBroker, home: Path, *more: str) -> subprocess.Popen[str]:
    environ = {
        **os.environ,
        "STATEWARD_HOME": str(home),
        "STATEWARD_KAFKA_BOOTSTRAP": broker.bootstrap,
        "STATEWARD_CREATE_TOPICS_AT": broker.bootstrap,
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "proof.traffic", *OPTIONS, *more]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def records_in(broker: RunningBroker, topic: str) -> int:
    """How many records a topic has; 0 when there is none of that name, or it has no leaders yet."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "counter"})
    try:
        partitions = consumer.list_topics(timeout=10).topics.get(topic)
        found = [TopicPartition(topic, number) for number in partitions.partitions] if partitions else []
        return sum(consumer.get_watermark_offsets(one, timeout=10)[1] for one in found)
    except KafkaException as error:
        if error.args[0].code() not in NEW:
            raise
        return 0
    finally:
        consumer.close()


def test_late_events_without_a_stream_are_refused_before_anything_is_sent(
    broker: RunningBroker, tmp_path: Path
) -> None:
    run = traffic(broker, tmp_path, "--late")
    _, errors = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 1
    assert "expected a running stream that reads payments, found none of fraud_watch" in errors
    assert "Traceback" not in errors
    assert records_in(broker, "payments") == 0


def test_both_phases_arrive_with_the_ticks_between_them(broker: RunningBroker, tmp_path: Path) -> None:
    # Stands for the driver, whose rows tests/spark/proof/test_traffic.py checks: here the watermark counts.
    status = tmp_path / "data" / "status" / "fraud_watch.json"
    running = Status("fraud_watch", "r1", "running", PLAN.start, PLAN.start)
    write_json(str(status), as_json(running))

    run = traffic(broker, tmp_path, "--late", "--out", str(tmp_path / "out"))
    wait_until(
        lambda: run.poll() is not None or records_in(broker, "payments") == PLAN.total + 3,
        PATIENCE_S,
        lambda: (
            f"the first phase and its ticks arrive: {records_in(broker, 'payments')} records, {run.poll()}"
        ),
    )
    assert run.poll() is None, "it waits for the watermark"
    write_json(str(status), {**as_json(running), "watermark": "2025-01-07T00:00:00.000Z"})
    output, errors = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, errors
    made = Traffic(PLAN)
    first = [record for _, record in values_of(made.slices())]
    late = [record for _, record in values_of(made.late())]
    assert output.splitlines()[-1].startswith(f"sent {len(first) + len(late)} records in ")

    found = read_all(broker, "payments")
    before: Counter[tuple[bytes | None, bytes]] = Counter()
    after: Counter[tuple[bytes | None, bytes]] = Counter()
    for records in found.values():
        tick = [key for key, _ in records].index(TICK_KEY)
        assert json.loads(records[tick][1])["tick"].startswith("2025-01-07T01:")
        before.update(records[:tick])
        after.update(records[tick + 1 :])
    assert before == Counter((record.key, record.value or b"") for record in first)
    assert after == Counter((record.key, record.value or b"") for record in late)

    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["streams"]["fraud_watch"]["tick_records"] == len(found) == 3
    assert manifest["streams"]["fraud_watch"]["late"] == len(late) > 0
    alerts = (tmp_path / "out" / "expected" / "fraud_watch" / "fraud_alerts.jsonl").read_text().splitlines()
    assert len(alerts) == manifest["streams"]["fraud_watch"]["rows"]["fraud_alerts"] > 0
