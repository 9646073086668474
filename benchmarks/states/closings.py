"""`python -m benchmarks.states.closings`: millions of sessions that end in one batch: its time, and memory.

Each user has one event. When all are read, the driver is drained. It starts again with a tick that ends every
session; `--against` names other checkouts, whose drivers do the same in turn with a copy of the state. The
memory is the most until the rows are committed; that of the workers contains pages of the local copies.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from benchmarks.harness.checkouts import commit_of
from benchmarks.harness.environments import emptied
from benchmarks.harness.fill import benchmark_broker
from benchmarks.harness.results import append_result
from benchmarks.harness.roles import DRIVER, JVM, WORKERS, Usage, usage
from stateward.control.launchers.launch import DRIVER_CONF
from stateward.project.settings import CHECKOUT, Settings
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.waiting import wait_until

_TOPIC = "closings"
_PARTITIONS = 3
_START = datetime(2024, 3, 1, tzinfo=UTC)
_TIMEOUT_S = 3_600
# What a producer holds until it is flushed.
_QUEUE = 50_000
_ROLES = {"driver_jvm": JVM, "driver_python": DRIVER, "workers": WORKERS}


def main(arguments: list[str]) -> int:
    """Measure, check the rows, and print a line of JSON for each turn; returns 1 if rows are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.states.closings", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--keys", type=int, default=5_000_000, help="(%(default)s)")
    parser.add_argument("--buckets", type=int, default=64, help="of the state (%(default)s)")
    parser.add_argument("--memory", default="1g", help="of the driver's JVM (%(default)s)")
    parser.add_argument("--against", type=Path, action="append", default=[], metavar="CHECKOUT")
    parser.add_argument("--against-memory", help="of the JVM of these (as --memory)")
    parser.add_argument("--turns", type=int, default=1, help="of each checkout (%(default)s)")
    given = parser.parse_args(arguments)
    folder = Settings().home / "bench" / "closings"
    load = {"keys": given.keys, "buckets": given.buckets}
    is_right = True
    with benchmark_broker(folder / "kafka") as broker:
        broker.create_topic(_TOPIC, _PARTITIONS)
        launch = _launch(emptied(folder / "run"), broker, given.memory, given.buckets)
        events = _events(given.keys)
        while some := list(islice(events, _QUEUE)):
            launch.send(some)
        _fill(launch, given.keys)
        filled = folder / "filled"
        shutil.rmtree(filled, ignore_errors=True)
        launch.folder.rename(filled)
        for checkout in (CHECKOUT, *given.against) * given.turns:
            shutil.rmtree(launch.folder, ignore_errors=True)
            shutil.copytree(filled, launch.folder)
            if checkout != CHECKOUT and given.against_memory:
                launch.driver_memory = given.against_memory
            result = {"commit": commit_of(checkout), **load, **_ended(launch, given.keys, checkout)}
            launch.driver_memory = given.memory
            append_result(folder.parent / "closings.jsonl", result)
            print(json.dumps(result), flush=True)
            is_right &= result["correct"]
    return 0 if is_right else 1


def _launch(folder: Path, broker: RunningBroker, memory: str, buckets: int) -> Launch:
    return Launch(
        folder, broker, _TOPIC, _PARTITIONS, driver_memory=memory, buckets=buckets, driver_conf=DRIVER_CONF
    )


def _start(launch: Launch, run_id: str, checkout: Path) -> int:
    """Start the driver of a checkout; returns its process id."""
    launch.checkout = checkout
    return launch.start(
        run_id,
        max_records_per_batch=200_000,
        # A busy machine must not take it away.
        lease={"uri": launch.uri("leases"), "ttl_ms": 300_000, "renew_ms": 5_000},
        spark_conf={"spark.driver.maxResultSize": "0"},
    ).pid


def _fill(launch: Launch, keys: int) -> None:
    """Read every event, and drain; then the topic has the tick that ends every session."""
    _start(launch, "fill", CHECKOUT)
    try:
        launch.wait_for("every event is read", _TIMEOUT_S, delivered=keys, rows_out=0)
        launch.drivers[-1].send_signal(signal.SIGTERM)
        launch.drivers[-1].wait(_TIMEOUT_S)
    finally:
        launch.kill_all()
    launch.end_replay((_START + timedelta(days=7)).isoformat())


def _events(keys: int) -> Iterator[tuple[bytes, bytes]]:
    for number in range(keys):
        user = f"user-{number:08}"
        # Within a minute, so that no session ends before the last event is read.
        at = _START + timedelta(milliseconds=number % 60_000)
        event = {"event_id": "a", "user_id": user, "event_type": "view", "event_time": at.isoformat()}
        yield user.encode(), json.dumps(event).encode()


def _ended(launch: Launch, keys: int, checkout: Path) -> dict[str, Any]:
    """End every session by the driver of a checkout."""
    assert launch.broker.process is not None
    most: dict[str, int] = {}
    broker_pid, load = launch.broker.process.pid, os.getloadavg()[0]
    driver_pid = _start(launch, "end", checkout)

    def is_done() -> bool:
        for role, used in usage(driver_pid, broker_pid).items():
            most[role] = max(most.get(role, 0), _mib(used))
        assert launch.drivers[-1].poll() is None, launch.log("end").read_text()[-3000:]
        return bool(launch.status().get("rows_out") == keys)

    try:
        wait_until(is_done, _TIMEOUT_S, lambda: f"every session is closed: {launch.status()}", 0.25)
    finally:
        launch.kill_all()
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_before": round(load, 1),
        "memory": launch.driver_memory,
        **{f"{name}_mib": most[role] for name, role in _ROLES.items()},
        **_checked(launch, keys),
    }


def _mib(used: Usage) -> int:
    return used.rss_bytes >> 20


def _checked(launch: Launch, keys: int) -> dict[str, Any]:
    """The batch that wrote the rows, its time from the plan to the commit, and whether all rows are there."""
    largest = max(launch.rows("batch_counts"), key=lambda row: int(row["rows_out"]))
    checkpoint = launch.folder / "checkpoint" / "g0001"
    planned, committed = (
        (checkpoint / name / str(largest["batch_id"])).stat().st_mtime for name in ("offsets", "commits")
    )
    table = DeltaTable(launch.uri("tables", "sessions"))
    rows = table.to_pyarrow_table(columns=["user_id", "event_count"])
    users, events = pc.count_distinct(rows["user_id"]).as_py(), pc.sum(rows["event_count"]).as_py()
    return {
        "batch_s": round(committed - planned, 1),
        "rows_of_the_batch": largest["rows_out"],
        "files": len(table.file_uris()),
        "correct": (rows.num_rows, users, events) == (keys, keys, keys),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
