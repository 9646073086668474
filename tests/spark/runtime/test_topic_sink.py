"""Rows in Kafka topics: each exactly once for readers of committed records, and with one id for all others.

A real broker, and no Spark: what the sink is given is that of `tests/unit/runtime/sink/test_sink.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from stateward.runtime.sink.topic_sink import EPOCH, ID, TopicSink, TopicSinkError
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.topic_sink_child import COMMITTED, MARKED, PAUSED, SENT, TABLES
from tests.support.spark.killed_driver import Driven
from tests.support.spark.launches import CHECKOUT, Launch, real_events
from tests.support.waiting import PATIENCE_S, wait_until
from tests.unit.runtime.sink.test_sink import (
    ALERTS,
    FULL,
    VISIT,
    VISITS,
    Batch,
    LeaseGoneError,
    Sinks,
    counts,
    lease_lost_at,
    part,
)

pytestmark = pytest.mark.spark

# The same rows as FULL, as another order of tasks gives them.
AGAIN = Batch(
    part(ALERTS, ("u",)),
    counts(accepted=3, dead=0),
    part(VISITS, ("v", None, None, None, None, None)),
    part(VISITS, VISIT, VISIT),
)


class Sent(NamedTuple):
    """A record of a topic."""

    id: str
    epoch: str
    key: str | None
    value: dict[str, Any]


def read(broker: RunningBroker, topic: str, *, committed: bool = True) -> list[Sent]:
    """All records of a topic, by their ids."""
    isolation = "read_committed" if committed else "read_uncommitted"
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: list[Sent] = []
    try:
        reader.assign([TopicPartition(topic, number, 0) for number in range(3)])
        ends = 0
        while ends < 3:
            message = reader.poll(PATIENCE_S)
            assert message is not None, "the topic can be read"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ends += 1
                continue
            given: Any = message
            headers = {name: value.decode() for name, value in given.headers()}
            key = None if given.key() is None else given.key().decode()
            found.append(Sent(headers[ID], headers[EPOCH], key, json.loads(given.value())))
    finally:
        reader.close()
    return sorted(found, key=lambda one: one.id)


class Topics:
    """Topics of a test's own for two tables, and sinks that write them."""

    def __init__(self, broker: RunningBroker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self.name = f"stateward-{folder.name}"
        self.names = {table.name: f"{folder.name}-{table.name}" for table in (VISITS, ALERTS)}
        for topic in self.names.values():
            broker.create_topic(topic)

    def sink(self) -> TopicSink:
        return TopicSink(self._broker.bootstrap, "visits", self.names, "user_id", self.name)

    def read(self, table: str, *, committed: bool = True) -> list[Sent]:
        """All records of a table's topic."""
        return read(self._broker, self.names[table], committed=committed)

    def child(self, step: str) -> subprocess.Popen[bytes]:
        """A driver that ends or stops at a step."""
        command = [sys.executable, "-m", "tests.support.kafka.topic_sink_child", str(self._folder)]
        command += [self._broker.bootstrap, json.dumps(self.names), self.name, step]
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        with (self._folder / f"{step}.log").open("wb") as log:
            return subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=log, stderr=log)


@pytest.fixture
def topics(broker: RunningBroker, tmp_path: Path) -> Topics:
    return Topics(broker, tmp_path)


@pytest.fixture
def sinks(tmp_path: Path) -> Sinks:
    return Sinks(tmp_path)


def test_a_record_has_the_row_its_key_and_its_id(topics: Topics, sinks: Sinks) -> None:
    sink = topics.sink()
    sinks.sink(topics=sink)(FULL, 7)
    sinks.sink(topics=sink)(Batch(counts(accepted=1)), 8)
    sinks.sink(topics=sink)(Batch(part(ALERTS, ("w",)), counts(accepted=1)), 9)

    visit = {
        "started_at": "1970-01-01T00:00:01Z",
        "pages": ["a", "b"],
        "score": 0.5,
        "closed": True,
        "rank": 3,
    }
    nothing = dict.fromkeys(visit)
    assert topics.read("visits") == [
        Sent("visits/g1/7/visits/0", "5", "u", {"user_id": "u", **visit}),
        Sent("visits/g1/7/visits/1", "5", "u", {"user_id": "u", **visit}),
        Sent("visits/g1/7/visits/2", "5", "v", {"user_id": "v", **nothing}),
    ]
    assert [one.id for one in topics.read("alerts")] == ["visits/g1/7/alerts/0", "visits/g1/9/alerts/0"]


@pytest.mark.parametrize(
    "step", [MARKED, *(pytest.param(step, marks=only_full) for step in (TABLES, SENT, COMMITTED))]
)
def test_a_batch_that_runs_again_after_a_kill_is_there_once_with_the_same_ids(
    step: str, topics: Topics, sinks: Sinks
) -> None:
    child = topics.child(step)
    assert child.wait(PATIENCE_S) == -signal.SIGKILL
    sinks.sink(topics=topics.sink())(AGAIN, 0)
    sinks.sink(topics=topics.sink())(FULL, 1)

    for table, rows in (("visits", 3), ("alerts", 1)):
        ids = [f"visits/g1/{batch}/{table}/{number}" for batch in (0, 1) for number in range(rows)]
        committed, all_sent = topics.read(table), topics.read(table, committed=False)
        assert [one.id for one in committed] == ids
        assert len(all_sent) == len(ids) + (rows if step in (SENT, MARKED) else 0)
        by_id = {one.id: one.value for one in committed}
        assert all(one.value == by_id[one.id] for one in all_sent)
        assert len(sinks.rows(VISITS if table == "visits" else ALERTS)) == len(ids)


def test_a_paused_driver_commits_nothing_once_another_has_sent(
    topics: Topics, sinks: Sinks, tmp_path: Path
) -> None:
    child = topics.child(PAUSED)
    try:
        wait_until(lambda: _state(child.pid) == "T", PATIENCE_S, "the driver has stopped before its commit")
        sinks.sink(topics=topics.sink(), check_lease=lambda: 6)(AGAIN, 0)
        (tmp_path / "epoch").write_text("6")
        child.send_signal(signal.SIGCONT)
        assert child.wait(PATIENCE_S) == 1
    finally:
        child.kill()
    assert "the lease is another's" in (tmp_path / f"{PAUSED}.log").read_text()
    assert [(one.id, one.epoch) for one in topics.read("alerts")] == [("visits/g1/0/alerts/0", "6")]


def test_a_lost_lease_commits_nothing_and_leaves_no_reader_waiting(topics: Topics, sinks: Sinks) -> None:
    # The checks before: one for the batch, one for each of the five commits, one once the producer is open.
    lost = lease_lost_at(8)

    def check() -> int:
        try:
            return lost()
        except LeaseGoneError:
            # An abort also drops what the producer has not sent yet.
            wait_until(lambda: sent() != [], PATIENCE_S, "Kafka has records of the transaction")
            raise

    def sent() -> list[Sent]:
        return topics.read("visits", committed=False)

    with pytest.raises(LeaseGoneError):
        sinks.sink(topics=topics.sink(), check_lease=check)(FULL, 0)
    assert len(sinks.rows(VISITS)) == 3
    assert topics.read("visits") == [] and sent() != []


def test_another_generation_sends_its_batches_whatever_their_numbers(topics: Topics, sinks: Sinks) -> None:
    for generation in ("g1", "g2"):
        sinks.sink(generation, topics=topics.sink())(FULL, 0)
    assert [one.id for one in topics.read("alerts")] == ["visits/g1/0/alerts/0", "visits/g2/0/alerts/0"]


def test_a_row_that_kafka_rejects_is_said_with_stream_and_topic(topics: Topics, sinks: Sinks) -> None:
    large = Batch(part(ALERTS, ("x" * 2_000_000,)), counts(accepted=1))
    said = f"stream visits: expected Kafka .* to take batch 0 for {topics.names['alerts']}, found: "
    with pytest.raises(TopicSinkError, match=said):
        sinks.sink(topics=topics.sink())(large, 0)
    assert topics.read("alerts") == []


@ci_full
def test_a_stream_that_is_killed_sends_each_session_once(tmp_path: Path, broker: RunningBroker) -> None:
    events, topic = real_events(), f"{tmp_path.name}-sessions"
    launch = Launch(tmp_path, broker, f"{tmp_path.name}-events")
    changes = {"max_records_per_batch": 500, "trigger_interval_ms": 50, "kafka_sink": {"sessions": topic}}
    broker.create_topic(launch.topic, launch.partitions)
    launch.send(events)
    launch.end_replay("2015-05-22T00:00:00Z")
    driven = Driven(launch, changes)
    try:
        driven.kill_once(3000, 0.3)
        driven.wait("all sessions are written", lambda status: status.get("rows_out") == 3052)
        driven.drain()
    finally:
        launch.kill_all()

    sent = read(broker, topic)
    rows = {row["session_id"]: row for row in launch.rows("sessions")}
    assert len(sent) == len(rows) == 3052
    assert len({one.id for one in sent}) == 3052
    for one in sent:
        row = rows[one.value["session_id"]]
        assert one.key == row["user_id"]
        assert {name: str(value) for name, value in one.value.items()} == {
            name: value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
            for name, value in row.items()
        }


def _state(pid: int) -> str:
    """The state of a process, as /proc has it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
