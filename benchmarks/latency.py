"""`python -m benchmarks.latency`: how long from an event to its committed row, at a steady rate.

Every event ends a session of its own (`is_last`), so each brings a row. Its time is the moment at which
it is given to the producer; the row's is that of the Delta commit which made it visible.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from confluent_kafka import Producer

from benchmarks.harness.checkouts import add_checkout
from benchmarks.harness.results import append_result
from benchmarks.run import benchmark_broker
from stateward.project.settings import Settings
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch

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
    add_checkout(parser)
    given = parser.parse_args(arguments)
    folder = Settings().home / "bench" / "latency"
    for emission in ("watermark", "eager"):
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "run").mkdir(parents=True)
        with benchmark_broker(folder / "kafka") as broker:
            broker.create_topic(_TOPIC, _PARTITIONS)
            since = _run(broker, folder / "run", emission, given)
        waits_ms = np.array([wait for at, wait in _waits(folder / "run") if at >= since])
        result = _summary(emission, given, waits_ms)
        append_result(folder.parent / "latency.jsonl", result)
        print(json.dumps(result), flush=True)
    return 0


def _run(broker: RunningBroker, folder: Path, emission: str, given: argparse.Namespace) -> float:
    """Drive one stream; returns from when on events count."""
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
        max_records_per_batch=100_000,
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
    return since


def _produce(bootstrap: str, rate: int, seconds: int, first: int = 0) -> int:
    """Send at a steady rate; returns the number of the next event."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"})
    padding = "x" * (_SIZE - 150)
    number, begun = first, time.time()
    while (elapsed := time.time() - begun) < seconds:
        while number - first < elapsed * rate:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
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
    """The time of each row's event, in seconds, and how many milliseconds later it was committed."""
    table = folder / "tables" / "sessions"
    for log in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        committed_ms = next(action["commitInfo"]["timestamp"] for action in actions if "commitInfo" in action)
        for path in [action["add"]["path"] for action in actions if "add" in action]:
            times = pq.read_table(table / path, columns=["ended_at"])["ended_at"].cast("int64").to_pylist()
            yield from ((at / 1e6, committed_ms - at / 1e3) for at in times)


def _summary(emission: str, given: argparse.Namespace, waits_ms: np.ndarray) -> dict[str, float | int | str]:
    p50, p99, most = (round(float(np.percentile(waits_ms, q))) for q in (50, 99, 100))
    return {
        **given.checkout.origin(),
        "emission": emission,
        "rate": given.rate,
        "lateness_ms": given.lateness_ms,
        "rows": len(waits_ms),
        "jvm": given.checkout.driver_conf["spark.driver.extraJavaOptions"],
        "p50_ms": p50,
        "p99_ms": p99,
        "max_ms": most,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
