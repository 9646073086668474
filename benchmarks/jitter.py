"""`python -m benchmarks.jitter`: the longest batch when many keys expire together, with and without jitter.

All keys come at once, with events of one time, so that all of them are due at the same moment. A few
expire before, so that the driver has done it once.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness.fill import benchmark_broker
from benchmarks.harness.results import append_result
from stateward.control.launchers.launch import DRIVER_CONF
from stateward.project.settings import Settings
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch

_PARTITIONS = 3
_WARM_UP = 2_000
_LOGIC = {"max_gap_ms": 86_400_000, "max_held_events": 10_000}


def main(arguments: list[str]) -> int:
    """Measure, and print a line of JSON; returns 1 if the longest batch is not cut to a third."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jitter", description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=100_000, help="(%(default)s)")
    parser.add_argument("--gap", type=int, default=45, metavar="S", help="after which they are due")
    parser.add_argument("--jitter", type=int, default=20, metavar="S", help="(%(default)s)")
    given = parser.parse_args(arguments)
    folder = Settings().home / "bench" / "jitter"
    shutil.rmtree(folder, ignore_errors=True)
    result: dict[str, Any] = {"keys": given.keys, "jitter_s": given.jitter}
    with benchmark_broker(folder / "kafka") as broker:
        for name, jitter_s in (("without", 0), ("with", given.jitter)):
            part = folder / name
            part.mkdir(parents=True)
            found = _expire(broker, part, given.keys, given.gap, jitter_s)
            result[f"longest_batch_ms_{name}"] = max(duration_ms for duration_ms, _ in found)
            result[f"most_rows_in_a_batch_{name}"] = max(rows for _, rows in found)
            result[f"batches_{name}"] = len(found)
    share = result["longest_batch_ms_with"] / result["longest_batch_ms_without"]
    result["share"] = round(share, 3)
    append_result(folder.parent / "jitter.jsonl", result)
    print(json.dumps(result), flush=True)
    return 0 if share <= 1 / 3 else 1


def _expire(
    broker: RunningBroker, folder: Path, keys: int, gap_s: int, jitter_s: int
) -> list[tuple[int, int]]:
    """Create the keys and let them expire; of each batch with rows its duration (ms) and their number."""
    topic = f"jitter-{folder.name}"
    broker.create_topic(topic, _PARTITIONS)
    launch = Launch(
        folder, broker, topic, _PARTITIONS, driver_memory="1g", buckets=64, driver_conf=DRIVER_CONF
    )
    launch.start(
        max_records_per_batch=2 * keys,
        trigger_interval_ms=1000,
        allowed_lateness_ms=1000,
        timeout_jitter_ms=jitter_s * 1000,
        logic={**_LOGIC, "gap_ms": gap_s * 1000},
    )
    try:
        launch.wait_for("the driver runs", state="running")
        launch.send(_events("warm", _WARM_UP, timeout_s=1))
        launch.wait_for("it is warm", jitter_s + 120, rows_out=_WARM_UP)
        launch.send(_events("user", keys))
        launch.wait_for("every session is closed", gap_s + jitter_s + 120, rows_out=keys + _WARM_UP)
    finally:
        launch.kill_all()
    counts = sorted(launch.rows("batch_counts"), key=lambda row: row["batch_id"])
    read = max(row["batch_id"] for row in counts if row["accepted"])
    ended = [row for row in counts if row["batch_id"] > read and row["rows_out"]]
    return [(_duration_ms(folder, row["batch_id"]), row["rows_out"]) for row in ended]


def _events(prefix: str, keys: int, **fields: int) -> Iterator[tuple[bytes, bytes]]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    for number in range(keys):
        user = f"{prefix}-{number:08}"
        event = {"event_id": "a", "user_id": user, "event_type": "view", "event_time": now, **fields}
        yield user.encode(), json.dumps(event).encode()


def _duration_ms(folder: Path, batch: int) -> int:
    """From a batch's plan in the checkpoint to its commit."""
    planned, committed = (
        folder / "checkpoint" / "g0001" / name / str(batch) for name in ("offsets", "commits")
    )
    return round((committed.stat().st_mtime - planned.stat().st_mtime) * 1000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
