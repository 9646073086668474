"""Ranges of a topic, read in one process, task after task, as in a Python worker."""

from __future__ import annotations

import pytest

from stateward.runtime.checkpoint.offsets import DataLossError, Range
from stateward.runtime.kafka.reader import read
from tests.support.kafka.broker import RunningBroker

pytestmark = pytest.mark.spark

TOPIC = "ranges"


@pytest.fixture(scope="module")
def bootstrap(broker: RunningBroker) -> str:
    """A broker whose topic has 1,000 records in each of two partitions."""
    from confluent_kafka import Producer

    broker.create_topic(TOPIC, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in range(1000):
        for partition in range(2):
            producer.produce(TOPIC, value=f"{partition}-{number}".encode(), partition=partition)
        producer.poll(0)
    assert producer.flush(30) == 0
    return broker.bootstrap


def values(bootstrap: str, *wanted: Range) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {}
    for messages in read(bootstrap, wanted):
        for message in messages:
            found.setdefault(message.partition() or 0, []).append(message.value())
    return found


def expected(partition: int, begin: int, end: int) -> list[bytes]:
    return [f"{partition}-{number}".encode() for number in range(begin, end)]


def test_one_range_after_another_and_back_again(bootstrap: str) -> None:
    for begin, end in ((0, 500), (500, 1000), (10, 11), (0, 1000)):
        assert values(bootstrap, Range(TOPIC, 0, begin, end)) == {0: expected(0, begin, end)}


def test_ranges_of_two_partitions_end_where_they_should(bootstrap: str) -> None:
    wanted = Range(TOPIC, 0, 990, 1000), Range(TOPIC, 1, 3, 600)
    assert values(bootstrap, *wanted) == {0: expected(0, 990, 1000), 1: expected(1, 3, 600)}


def test_what_is_no_longer_there_is_lost_data(bootstrap: str) -> None:
    with pytest.raises(DataLossError, match="partition 0: the records to be read next are no longer"):
        values(bootstrap, Range(TOPIC, 0, 5000, 5001))
    assert values(bootstrap, Range(TOPIC, 0, 0, 1)) == {0: expected(0, 0, 1)}, "the reader has recovered"
