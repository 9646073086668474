"""The ceiling: one process that consumes, parses and keeps sessions in a dict. Nothing survives a crash."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import TextIO

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from benchmarks.peers.runs import Run, add, take_closed
from benchmarks.peers.task import Task

_SWEEP_MS = 10_000


def main() -> None:
    """Read the topic to its end and write all its sessions."""
    task = Task.from_arguments()
    task.output.mkdir()
    open_runs: dict[str, list[Run]] = {}
    latest = dict.fromkeys(range(task.partitions), 0)
    swept_ms = 0
    with (task.output / "sessions.json").open("w") as output:
        for messages in _batches(task):
            for message in messages:
                value, partition = message.value(), message.partition()
                assert value is not None and partition is not None
                event = orjson.loads(value)
                time_ms = int(datetime.fromisoformat(event["event_time"]).timestamp() * 1000)
                latest[partition] = max(latest[partition], time_ms)
                if event["user_id"] != task.tick_user:
                    add(open_runs.setdefault(event["user_id"], []), time_ms, task.gap_ms)
            watermark_ms = min(latest.values()) - task.lateness_ms
            if watermark_ms >= swept_ms + _SWEEP_MS:
                _sweep(open_runs, watermark_ms, task, output)
                swept_ms = watermark_ms
    task.finish(time.time())


def _batches(task: Task) -> Iterator[list[Message]]:
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap_servers,
            "group.id": "plain-loop",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 4_000_000,
            "queued.max.messages.kbytes": 131_072,
        }
    )
    partitions = [TopicPartition(task.topic, number, 0) for number in range(task.partitions)]
    left = sum(consumer.get_watermark_offsets(partition)[1] for partition in partitions)
    consumer.assign(partitions)
    while left:
        messages = consumer.consume(10_000, 0.1)
        left -= len(messages)
        yield messages
    consumer.close()


def _sweep(open_runs: dict[str, list[Run]], watermark_ms: int, task: Task, output: TextIO) -> None:
    for user, runs in list(open_runs.items()):
        for started, ended, count in take_closed(runs, watermark_ms, task.gap_ms):
            row = {"user_id": user, "started_ms": started, "ended_ms": ended, "event_count": count}
            output.write(orjson.dumps(row).decode() + "\n")
        if not runs:
            del open_runs[user]


if __name__ == "__main__":
    main()
