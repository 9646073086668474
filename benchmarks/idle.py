"""`python -m benchmarks.idle`: the cost of an idle stream, and the duration of a nearly empty batch.

Some hundred sessions are open. First nothing comes for a while; then a record now and then, each a batch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from datetime import UTC, datetime
from typing import Any

from benchmarks.harness.checkouts import add_checkout
from benchmarks.harness.environments import emptied
from benchmarks.harness.fill import benchmark_broker
from benchmarks.harness.results import append_result
from benchmarks.harness.roles import BROKER, Usage, pss_bytes, usage
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from tests.support.spark.launches import Launch
from tests.support.waiting import wait_until

_TOPIC = "idle"
_SESSIONS = 500
_RECORDS = 30


def main(arguments: list[str]) -> int:
    """Measure, and print a line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=90, help="of silence (%(default)s)")
    parser.add_argument("--warm-up", type=int, default=400, help="batches that do not count (%(default)s)")
    parser.add_argument("--partitions", type=int, default=2, help="of the state (%(default)s)")
    add_checkout(parser)
    given = parser.parse_args(arguments)
    folder = Settings().home / "bench" / "idle"
    with benchmark_broker(folder / "kafka") as broker:
        assert broker.process is not None
        broker.create_topic(_TOPIC, 3)
        launch = Launch(
            emptied(folder / "run"),
            broker,
            _TOPIC,
            driver_memory="1g",
            buckets=max(64, given.partitions),
            driver_conf=given.checkout.driver_conf,
            checkout=given.checkout.folder,
        )
        launch.send(_event(number, f"u{number}") for number in range(_SESSIONS))
        driver = launch.start(**_settings(launch), state_partitions=given.partitions)
        try:
            launch.wait_for("the sessions are open", delivered=_SESSIONS)
            # The JVM compiles for minutes after the first batches, which an idle stream has long behind it.
            _trickle(launch, _SESSIONS, given.warm_up)
            result = _silence(launch, given.seconds, driver.pid, broker.process.pid)
            before = _cpu_s(driver.pid, broker.process.pid)
            durations = _trickle(launch, _SESSIONS + given.warm_up, _RECORDS)
            spent = _cpu_s(driver.pid, broker.process.pid) - before
        finally:
            launch.kill_all()
    result |= given.checkout.origin()
    result["partitions"] = given.partitions
    result["batches"] = len(durations)
    result["cpu_ms_per_batch"] = round(spent / len(durations) * 1000)
    result["median_batch_ms"] = statistics.median(durations)
    result["longest_batch_ms"] = max(durations)
    append_result(folder.parent / "idle.jsonl", result)
    print(json.dumps(result), flush=True)
    return 0


def _settings(launch: Launch) -> dict[str, Any]:
    """The settings in the stream's YAML that cause work in an idle driver."""
    document = resolved_configuration(load_spec(launch.stream.name), Settings(), "bench")
    return {
        **{name: document[name] for name in ("trigger_interval_ms", "tick")},
        "lease": {**document["lease"], "uri": launch.uri("leases")},
    }


def _event(number: int, user: str) -> tuple[bytes, bytes]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    document = {"event_id": f"e{number}", "user_id": user, "event_type": "x", "event_time": now}
    return user.encode(), json.dumps(document).encode()


def _silence(launch: Launch, seconds: int, driver_pid: int, broker_pid: int) -> dict[str, Any]:
    """CPU time of the driver and its workers without input, as a share of one core, and their memory."""
    before, batch = _cpu_s(driver_pid, broker_pid), launch.status()["batch_id"]
    time.sleep(seconds)
    spent = _cpu_s(driver_pid, broker_pid) - before
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": seconds,
        "core_percent": round(spent / seconds * 100, 1),
        "batches_in_silence": launch.status()["batch_id"] - batch,
        "memory_mib": round(sum(used.rss_bytes for used in _used(driver_pid, broker_pid)) / 2**20),
        "pss_mib": round(pss_bytes(driver_pid) / 2**20),
    }


def _cpu_s(driver_pid: int, broker_pid: int) -> float:
    """CPU time of the driver and its workers so far."""
    return sum(used.cpu_s for used in _used(driver_pid, broker_pid))


def _used(driver_pid: int, broker_pid: int) -> list[Usage]:
    return [used for role, used in usage(driver_pid, broker_pid).items() if role != BROKER]


def _trickle(launch: Launch, first: int, records: int) -> list[int]:
    """Send records one by one, each after the previous one is committed; returns batch durations (ms)."""
    durations = []
    for number in range(first, first + records):
        launch.send([_event(number, f"u{number % _SESSIONS}")])
        wait_until(
            lambda wanted=number + 1: launch.status().get("delivered") == wanted,  # type: ignore[misc]
            60,
            lambda: f"a record is committed: {launch.status()}",
            0.02,
        )
        durations.append(launch.status()["batch_duration_ms"])
    return durations


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
