"""`python -m benchmarks.latency`: how long from an event to its committed row, at a steady rate.

Every event ends a session of its own (`is_last`), so each brings a row. Its time is the moment at which
it is given to the producer; the row's is that of the Delta commit which made it visible. A peer does not know
`is_last`: its sessions end 2 ms after each event by the watermark, and a checkpoint shows their rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pyarrow.parquet as pq
from confluent_kafka import Producer

from benchmarks.harness.checkouts import add_checkout
from benchmarks.harness.contestants import log_tail
from benchmarks.harness.environments import emptied
from benchmarks.harness.fill import benchmark_broker
from benchmarks.harness.measure import Entry, task_of
from benchmarks.harness.one_run import about, add_peer, contestant_of
from benchmarks.harness.readers import FlinkReader, reader_of
from benchmarks.harness.results import append_result
from benchmarks.harness.user_sessions import BATCH
from benchmarks.harness.workload import Workload
from benchmarks.peers.task import Task
from stateward.project.settings import Settings
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.waiting import wait_until

_PARTITIONS = 3
_USERS = 20_000
_SIZE = 1000
_SLICE_S = 0.02
_TOPIC = "latency"


def main(arguments: list[str]) -> int:
    """Measure both ways to emit and print a line of JSON for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=30_000, help="events a second (%(default)s)")
    parser.add_argument("--warm-up", type=int, default=60, metavar="S", help="not counted (%(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="counted (%(default)s)")
    parser.add_argument("--lateness-ms", type=int, default=1000, help="allowed lateness (%(default)s)")
    parser.add_argument(
        "--commit-interval-ms", type=int, default=1000, help="of a peer's checkpoints (%(default)s)"
    )
    add_checkout(parser)
    add_peer(parser)
    given = parser.parse_args(arguments)
    entry = contestant_of(given)
    folder = Settings().home / "bench" / "latency"
    jars = entry.contestant.prepare(folder.parent)
    # A peer emits by the watermark alone.
    for emission in ("watermark",) if given.peer else ("watermark", "eager"):
        run = emptied(folder / "run")
        with benchmark_broker(folder / "kafka") as broker:
            broker.create_topic(_TOPIC, _PARTITIONS)
            if given.peer:
                measured = _measure_peer(_task(entry, run, broker, given, jars), entry, given)
            else:
                measured = _measure_driver(broker, run, emission, given)
        result = {
            **about(entry),
            "emission": emission,
            "rate": given.rate,
            "lateness_ms": given.lateness_ms,
            **measured.summary(),
        }
        append_result(folder.parent / "latency.jsonl", result)
        print(json.dumps(result), flush=True)
    return 0


@dataclass(frozen=True)
class Measured:
    """What one contestant showed.

    Attributes:
        since: From when on events count, seconds since 1970.
        waits: The time of each row's event, in seconds, and how many milliseconds later the row was shown.
        settings: What its result says of it.
    """

    since: float
    waits: Iterable[tuple[float, float]]
    settings: Mapping[str, int] = field(default_factory=dict)

    def summary(self) -> dict[str, int]:
        """The part of the result that is the contestant's own."""
        waits_ms = np.array([wait for at, wait in self.waits if at >= self.since])
        p50, p99, most = (round(float(np.percentile(waits_ms, q))) for q in (50, 99, 100))
        rows = {"rows": len(waits_ms), **self.settings}
        return {**rows, "p50_ms": p50, "p99_ms": p99, "max_ms": most}


def _measure_driver(
    broker: RunningBroker, folder: Path, emission: str, given: argparse.Namespace
) -> Measured:
    """Drive one stream."""
    launch = Launch(
        folder,
        broker,
        _TOPIC,
        _PARTITIONS,
        driver_memory="1g",
        buckets=64,
        driver_conf=given.checkout.driver_conf,
        checkout=given.checkout.folder,
    )
    launch.start(
        emission=emission,
        **BATCH,
        trigger_interval_ms=100,
        allowed_lateness_ms=given.lateness_ms,
        tick={"mode": "wall_clock", "interval_ms": 500},
    )
    try:
        launch.wait_for("the query runs", state="running")
        warm = _produce(broker.bootstrap, given.rate, given.warm_up)
        since = time.time()
        sent = _produce(broker.bootstrap, given.rate, given.seconds, first=warm)
        launch.wait_for("all is read", delivered=sent)
        launch.wait_for("every session is closed", rows_out=sent)
    finally:
        launch.kill_all()
    return Measured(since, _waits(folder))


def _task(
    entry: Entry, folder: Path, broker: RunningBroker, given: argparse.Namespace, jars: list[Path]
) -> Task:
    usual = Workload(partitions=_PARTITIONS)
    return replace(
        task_of(usual, 0, folder, broker.bootstrap, entry.variant, jars=jars),
        topic=_TOPIC,
        gap_ms=2,
        lateness_ms=given.lateness_ms,
        commit_interval_ms=given.commit_interval_ms,
        is_endless=True,
    )


def _measure_peer(task: Task, entry: Entry, given: argparse.Namespace) -> Measured:
    """Drive a peer."""
    bootstrap = task.bootstrap_servers
    reader = reader_of(entry, task)
    assert isinstance(reader, FlinkReader)
    reader.start()
    try:
        first = _produce(bootstrap, given.rate, 1)
        wait_until(reader.delivered, 300, lambda: f"a checkpoint has a record: {log_tail(task)}")
        warm = _produce(bootstrap, given.rate, given.warm_up, first)
        since = time.time()
        _produce(bootstrap, given.rate, given.seconds, first=warm)
        _end(bootstrap, task)
        wait_until(reader.shows_all, 300, lambda: f"a checkpoint has every row: {log_tail(task)}")
    finally:
        reader.kill()
    settings = {"commit_interval_ms": given.commit_interval_ms}
    return Measured(since, _waits_in_files(Path(task.folder)), settings)


def _end(bootstrap: str, task: Task) -> None:
    """Move the watermark past every event."""
    producer = Producer({"bootstrap.servers": bootstrap})
    later = _iso(datetime.now(UTC) + timedelta(hours=1))
    for partition in range(task.partitions):
        value = f'{{"user_id":"{task.tick_user}","event_time":"{later}"}}'
        producer.produce(_TOPIC, value=value, partition=partition)
    assert producer.flush(60) == 0, "not every record was taken by the broker"


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _produce(bootstrap: str, rate: int, seconds: int, first: int = 0) -> int:
    """Send at a steady rate; returns the number of the next event."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"})
    padding = "x" * (_SIZE - 150)
    number, begun = first, time.time()
    while (elapsed := time.time() - begun) < seconds:
        while number - first < elapsed * rate:
            now = _iso(datetime.now(UTC))
            user = f"u{number % _USERS:08d}"
            value = (
                f'{{"event_id":"e{number}","user_id":"{user}","event_type":"x","event_time":"{now}",'
                f'"is_last":true,"rest":"{padding}"}}'
            )
            producer.produce(_TOPIC, value=value, key=user)
            number += 1
        producer.poll(_SLICE_S)
    assert producer.flush(60) == 0, "not every record was taken by the broker"
    return number


def _waits(folder: Path) -> Iterator[tuple[float, float]]:
    """The waits of a driver's rows, which a commit to Delta shows."""
    table = folder / "tables" / "sessions"
    for log in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        committed_ms = next(action["commitInfo"]["timestamp"] for action in actions if "commitInfo" in action)
        for path in [action["add"]["path"] for action in actions if "add" in action]:
            times = pq.read_table(table / path, columns=["ended_at"])["ended_at"].cast("int64").to_pylist()
            yield from ((at / 1e6, committed_ms - at / 1e3) for at in times)


def _waits_in_files(folder: Path) -> Iterator[tuple[float, float]]:
    """The waits of a peer's rows, whose files get their names when a checkpoint shows them."""
    for file in (folder / "output").rglob("*"):
        if file.is_file():
            shown_ms = file.stat().st_ctime * 1000
            for line in file.read_bytes().splitlines():
                at_ms = orjson.loads(line)["ended_ms"]
                yield at_ms / 1e3, shown_ms - at_ms


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
