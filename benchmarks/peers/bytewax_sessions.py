"""Bytewax: its session window, in as many processes as the task allows.

Durability: recovery on, a snapshot each commit interval; the file sink is exactly once, by truncation on
resume. The watermark is each user's own and moves by events alone: the default, which adds elapsed wall time,
closes sessions too early in a replay that is slower than time. So the last session of each user closes at the
end of the topic, the cheapest way for Bytewax.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bytewax.operators as op
import orjson
from bytewax.connectors.files import DirSink
from bytewax.connectors.kafka import KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, SessionWindower, fold_window
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main

from benchmarks.peers.task import Task

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def flow(task: Task) -> Dataflow:
    """Return the dataflow."""

    def parse(message: KafkaSourceMessage) -> tuple[str, datetime] | None:
        event = orjson.loads(message.value)
        if event["user_id"] == task.tick_user:
            return None
        return event["user_id"], datetime.fromisoformat(event["event_time"])

    dataflow = Dataflow("sessions")
    messages = op.input(
        "events", dataflow, KafkaSource([task.bootstrap_servers], [task.topic], tail=False, batch_size=10_000)
    )
    events = op.filter_map("parse", messages, parse)
    clock = EventClock(
        ts_getter=lambda moment: moment,
        wait_for_system_duration=timedelta(milliseconds=task.lateness_ms),
        now_getter=lambda: _NEVER,
        to_system_utc=lambda moment: None,
    )
    # Events that are exactly Bytewax's gap apart are in one session; here they are in two.
    windower = SessionWindower(timedelta(milliseconds=task.gap_ms - 1))
    # A session is what its events say, in any order.
    windows = fold_window("sessions", events, clock, windower, list, _fold, _merge, ordered=False)
    rows = op.map("rows", windows.down, lambda item: (item[0], _row(item[0], item[1][1])))
    op.output("output", rows, DirSink(task.output, task.parallelism))
    return dataflow


def _fold(session: list[int], moment: datetime) -> list[int]:
    time_ms = int(moment.timestamp() * 1000)
    return _merge(session, [time_ms, time_ms, 1])


def _merge(one: list[int], other: list[int]) -> list[int]:
    if not one or not other:
        return one or other
    return [min(one[0], other[0]), max(one[1], other[1]), one[2] + other[2]]


def _row(user: str, session: list[int]) -> str:
    started, ended, count = session
    row = {"user_id": user, "started_ms": started, "ended_ms": ended, "event_count": count}
    return orjson.dumps(row).decode()


def _run(task: Task, addresses: list[str], number: int) -> None:
    cluster_main(
        flow(task),
        addresses,
        number,
        epoch_interval=timedelta(milliseconds=task.commit_interval_ms),
        recovery_config=RecoveryConfig(Path(task.folder) / "recovery"),
    )


def _free_addresses(count: int) -> list[str]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    for probe in probes:
        probe.close()
    return addresses


def main() -> None:
    """Run all processes to the end of the topic."""
    task = Task.from_arguments()
    task.output.mkdir()
    recovery = Path(task.folder) / "recovery"
    recovery.mkdir()
    init_db_dir(recovery, task.parallelism)
    addresses = _free_addresses(task.parallelism)
    workers = [
        multiprocessing.Process(target=_run, args=(task, addresses, number))
        for number in range(task.parallelism)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise SystemExit(f"a worker ended with {worker.exitcode}")
    task.finish(time.time())


if __name__ == "__main__":
    main()
