"""A broker of a benchmark's own, and topics that are filled with a workload as fast as it takes them."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.harness.workload import Events, Workload, end_of_topic, flush_records, records
from stateward.platform.parts.kafka import Broker as BrokerPart
from stateward.platform.parts.ports import free_ports
from stateward.platform.topics import ensure_topic
from stateward.project.settings import CHECKOUT
from stateward.runtime.kafka.broker import Broker, BrokerAwayError
from tests.support.kafka.broker import RunningBroker
from tests.support.waiting import wait_until

BROKER_HEAP_MB = 1024
_FLUSH_S = 300.0


class FillError(RuntimeError):
    """The broker did not take every record."""


@contextmanager
def benchmark_broker(folder: Path) -> Iterator[RunningBroker]:
    """A new, empty broker; from now on SIGTERM ends the program like Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shutil.rmtree(folder, ignore_errors=True)
    port, controller = free_ports(2)
    jars = CHECKOUT / "jars" / "kafka"
    broker = RunningBroker(BrokerPart(folder, jars, "127.0.0.1", port, controller, heap_mb=BROKER_HEAP_MB))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def fill_topic(bootstrap: str, workload: Workload, events: Events) -> None:
    """Fill the topic of a workload, unless it is there already."""
    topic = workload.topic(False)
    ensure_topic(bootstrap, topic, workload.partitions, create=True)
    broker = Broker(bootstrap)

    def held_now() -> list[int] | None:
        # A topic that was made a moment ago has no leaders yet.
        with suppress(BrokerAwayError):
            return list(broker.end_offsets(topic, workload.partitions).values())
        return None

    held = sum(wait_until(held_now, 30, f"topic {topic} has leaders"))
    if held == 0:
        fill(bootstrap, topic, workload, events)
        return
    wanted = workload.records(False) + workload.partitions
    assert held == wanted, f"topic {topic}: expected {wanted:,} records or none, found {held:,}"


def fill(bootstrap: str, topic: str, workload: Workload, events: Events, flush_users: bool = False) -> None:
    """Send all events, then the end of the topic to every partition; a progress bar tells how far it is.

    Args:
        bootstrap: `host:port` of the broker.
        topic: exists, and is empty.
        workload: parameters.
        events: of the workload.
        flush_users: send a record per user before the end.

    Raises:
        FillError: not every record was acknowledged.
    """
    from rich.progress import Progress

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "compression.type": workload.compression,
            # As Java producers do; a user is in one partition.
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 524_288,
            "delivery.report.only.error": True,
        }
    )
    with Progress() as progress:
        bar = progress.add_task(f"filling {topic}", total=workload.records(flush_users))
        chunks = records(workload, events)
        for chunk in chain(chunks, flush_records(workload, events) if flush_users else ()):
            for key, value in chunk:
                _send(producer, topic, key, value)
            progress.advance(bar, len(chunk))
        _flush(producer, topic)
    key, value = end_of_topic(events)
    for partition in range(workload.partitions):
        producer.produce(topic, value=value, key=key, partition=partition)
    _flush(producer, topic)


def _send(producer: Producer, topic: str, key: bytes, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value=value, key=key)
            return
        except BufferError:
            producer.poll(0.1)


def _flush(producer: Producer, topic: str) -> None:
    if left := producer.flush(_FLUSH_S):
        raise FillError(f"topic {topic}: {left} records were not acknowledged in {_FLUSH_S:g} s")
