"""Quix Streams: a stateful function, in one process per partition.

Durability: exactly once (transactions), state in RocksDB with changelog topics, commits each commit interval;
rows go to a topic. A stateful function has no timers for a silent key, so its topic ends with one record per
user that closes what is open. Variants: `at-least-once`; `window`, with Quix's session window instead of the
function (closing by key: by partition, every closing session costs a pass over all keys).
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from quixstreams import Application, State
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.dataframe.windows import Count

from benchmarks.peers.runs import add, take_closed
from benchmarks.peers.task import Task

_POLL_S = 0.1


def run(task: Task) -> None:
    """Run one process, until it is ended."""
    application = Application(
        broker_address=task.bootstrap_servers,
        consumer_group=_group(task),
        auto_offset_reset="earliest",
        commit_interval=task.commit_interval_ms / 1000,
        state_dir=Path(task.folder) / f"state-{multiprocessing.current_process().name}",
        processing_guarantee="at-least-once" if task.variant == "at-least-once" else "exactly-once",
        loglevel="WARNING",
    )
    events = application.topic(
        task.topic, key_deserializer="str", value_deserializer="json", timestamp_extractor=_time_of
    )
    output = application.topic(_output_topic(task), key_serializer="str", value_serializer="json")
    stream = application.dataframe(events).filter(lambda event: event["user_id"] != task.tick_user)
    rows = _window(stream, task) if task.variant == "window" else _function(stream, task)
    rows.to_topic(output)
    application.run()


def _function(stream: StreamingDataFrame, task: Task) -> StreamingDataFrame:
    def step(event: dict[str, Any], state: State) -> list[dict[str, Any]]:
        time_ms = _milliseconds(event["event_time"])
        runs = state.get("runs") or []
        if event["event_type"] != "flush":
            add(runs, time_ms, task.gap_ms)
        closed = take_closed(runs, time_ms - task.lateness_ms, task.gap_ms)
        state.set("runs", runs)
        return [
            {"user_id": event["user_id"], "started_ms": run[0], "ended_ms": run[1], "event_count": run[2]}
            for run in closed
        ]

    return stream.apply(step, stateful=True, expand=True)


def _window(stream: StreamingDataFrame, task: Task) -> StreamingDataFrame:
    def row(value: dict[str, Any], key: str, timestamp: int, headers: object) -> dict[str, Any]:
        return {
            "user_id": key,
            "started_ms": value["start"],
            "ended_ms": value["end"] - 1,
            "event_count": value["count"],
        }

    # Events that are exactly Quix's gap apart are in one session; here they are in two.
    window = stream.session_window(task.gap_ms - 1, grace_ms=task.lateness_ms)
    return window.agg(count=Count()).final().apply(row, metadata=True)


def _time_of(value: dict[str, Any], headers: object, timestamp: float, kind: object) -> int:
    return _milliseconds(value["event_time"])


def _milliseconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _group(task: Task) -> str:
    return f"quix-{Path(task.folder).name}"


def _output_topic(task: Task) -> str:
    return f"output-{Path(task.folder).name}"


def wait_for_commit(task: Task, workers: list[multiprocessing.Process]) -> None:
    """Wait until the group has committed the end of every partition."""
    admin = AdminClient({"bootstrap.servers": task.bootstrap_servers})
    partitions = [TopicPartition(task.topic, number) for number in range(task.partitions)]
    wanted = admin.list_offsets({partition: OffsetSpec.latest() for partition in partitions})
    ends = {partition.partition: future.result().offset for partition, future in wanted.items()}
    while True:
        request = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(_group(task), partitions)])
        found = request[_group(task)].result().topic_partitions
        if found and {one.partition: one.offset for one in found} == ends:
            return
        if any(worker.exitcode is not None for worker in workers):
            raise SystemExit(f"a worker ended with {[worker.exitcode for worker in workers]}")
        time.sleep(_POLL_S)


def main() -> None:
    """Run all processes until the end of the topic is committed."""
    task = Task.from_arguments()
    logging.basicConfig(level=logging.WARNING)
    workers = [multiprocessing.Process(target=run, args=(task,)) for _ in range(task.partitions)]
    for worker in workers:
        worker.start()
    try:
        wait_for_commit(task, workers)
        task.finish(time.time(), _output_topic(task))
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    main()
