"""A batch leaves out the records of forgotten keys, by their offsets, and reads every other one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from stateward.contract.privacy.forgotten import ForgottenKey, RecordsOf, Register
from stateward.runtime.checkpoint.batch_plan import Plan
from stateward.runtime.checkpoint.offsets import Range
from stateward.runtime.kafka import reader, source
from stateward.runtime.kafka.planner import Scan
from stateward.runtime.kafka.source import KafkaReader

TOPIC = "user_events"


class Task:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.left_out: list[int] = []

    def begin(self, topic: str, partitions: Sequence[int]) -> None:
        """Take partitions."""

    def take(self, messages: Sequence[Message]) -> None:
        self.taken += [message.offset() or 0 for message in messages]

    def leave_out(self, messages: Sequence[Message]) -> None:
        self.left_out += [message.offset() or 0 for message in messages]

    def tick(self, tick_ms: int) -> None:
        """Take a tick."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        return iter(())


class Decoder:
    """Has one task."""

    ddl = "a int"

    def __init__(self) -> None:
        self.task = Task()

    def load(self) -> Task:
        return self.task


def forget(folder: Path, first: int, last: int, topic_id: str = "id") -> None:
    records = {TOPIC: RecordsOf(topic_id, {"1": ((first, last),)})}
    Register(f"file://{folder}").add(
        ForgottenKey(
            operation=f"{first}-forget",
            stream="user_sessions",
            field="user_id",
            digest="d",
            at=datetime(2026, 1, 1, tzinfo=UTC),
            records=records,
        )
    )


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs one batch over the offsets 0 to 9 of two partitions; returns what was decoded and left out."""

    def messages(bootstrap: str, wanted: Sequence[Range]) -> Iterator[list[Message]]:
        for one in wanted:
            yield [Message(TOPIC, one.partition, offset) for offset in range(one.begin, one.end)]

    monkeypatch.setattr(reader, "read", messages)
    monkeypatch.setattr(source, "cluster_at", lambda bootstrap: None)
    decoder = Decoder()
    scan = Scan(
        "b:1", {TOPIC: 2}, None, False, 100, 0, f"file://{tmp_path}/c", f"file://{tmp_path}/forgotten"
    )
    made = KafkaReader(scan, decoder)

    def run(topic_id: str = "id") -> tuple[int, list[int]]:
        decoder.task = Task()
        start, end = ({TOPIC: {0: at, 1: at}} for at in (0, 10))
        for part in made.partitions(Plan(start).to_json(), Plan(end, ids={TOPIC: topic_id}).to_json()):
            list(made.read(part))
        return len(decoder.task.taken), decoder.task.left_out

    return run


def test_records_of_a_key_are_left_out_from_the_next_batch_on(batch: Any, tmp_path: Path) -> None:
    assert batch() == (20, [])
    forget(tmp_path / "forgotten", 3, 5)
    assert batch() == (17, [3, 4, 5])
    forget(tmp_path / "forgotten", 5, 6)
    assert batch() == (16, [3, 4, 5, 6])


def test_records_of_a_topic_that_was_created_again_are_others(batch: Any, tmp_path: Path) -> None:
    forget(tmp_path / "forgotten", 3, 5, topic_id="of the earlier topic")
    assert batch() == (20, [])
