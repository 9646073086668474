"""`python -m benchmarks.recovery`: how long a contestant with many keys needs after SIGKILL, and its state.

A driver is killed with its workers once it has read half of the topic, and started again at once; then a
second time at three quarters, with the local copies of the states removed, as on another machine. A peer is
killed at half, and goes on from its newest checkpoint.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.checkouts import add_checkout
from benchmarks.harness.one_run import Run, about, add_peer, contestant_of, running
from benchmarks.harness.readers import DriverReader, Reader
from benchmarks.harness.results import append_result
from benchmarks.harness.workload import Workload
from stateward.project.settings import Settings
from tests.support.spark.launches import Launch
from tests.support.waiting import wait_until


def main(arguments: list[str]) -> int:
    """Measure, check the answer, and print a line of JSON; returns 0 unless the answer was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recovery", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--events", type=int, default=4_000_000, help="(%(default)s)")
    parser.add_argument("--keys", type=int, default=1_200_000, help="(%(default)s)")
    add_checkout(parser)
    add_peer(parser)
    given = parser.parse_args(arguments)
    workload = Workload(given.events, keys=given.keys)
    cache = Settings().home / "bench"
    entry = contestant_of(given)
    # A job of Flink with an end does not reach it once it was restored.
    with running(entry, workload, cache, is_endless=True) as run:
        result = _kill_driver_twice(run) if isinstance(run.reader, DriverReader) else _kill_peer(run)
        run.wait_for_last_row()
    result |= about(entry)
    result["correct"] = run.is_right()
    result["workload"] = workload.as_json()
    append_result(cache / "recovery.jsonl", result)
    print(json.dumps(result), flush=True)
    return 0 if result["correct"] else 1


def _kill_driver_twice(run: Run) -> dict[str, Any]:
    reader, events = run.reader, run.workload.events
    assert isinstance(reader, DriverReader)
    result: dict[str, Any] = {}
    copies = Path(reader.task.folder) / "cache"
    for part, name in ((0.5, "with copies"), (0.75, "without copies")):
        _read(reader, int(events * part))
        before = reader.launch.status()
        result["live_keys"] = reader.live_keys()
        result["state_bytes"] = before["state_bytes"]
        result["copy_bytes"] = sum(file.stat().st_blocks * 512 for file in copies.glob("*/p*/*"))
        result["checkpoint_bytes"] = _bytes_in(reader, "checkpoint")
        reader.kill()
        if name == "without copies":
            shutil.rmtree(copies)
        killed_at = time.time()
        reader.start()
        again = partial(_is_running, reader.launch, before["epoch"])
        wait_until(again, 300, "the driver runs again", 0.05)
        result[f"running again, {name}, s"] = round(time.time() - killed_at, 1)
        _read(reader, before["delivered"] + 1)
        result[f"next batch committed, {name}, s"] = round(time.time() - killed_at, 1)
    return result


def _kill_peer(run: Run) -> dict[str, Any]:
    reader = run.reader
    _read(reader, run.workload.events // 2)
    reader.kill()
    killed_at = time.time()
    # What was committed while it died counts as read before.
    read, checkpoint_bytes = reader.delivered(), _bytes_in(reader, "checkpoints")
    reader.start()
    _read(reader, read + 1)
    seconds = round(time.time() - killed_at, 1)
    return {"checkpoint_bytes": checkpoint_bytes, "next commit, from its checkpoint, s": seconds}


def _bytes_in(reader: Reader, folder: str) -> int:
    files = (Path(reader.task.folder) / folder).rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def _read(reader: Reader, records: int) -> None:
    """Wait until so many records are read."""
    wait_until(
        lambda: reader.delivered() >= records,
        600,
        lambda: f"{records:,} records are read: {reader.delivered():,}",
        0.05,
    )


def _is_running(launch: Launch, old_epoch: int) -> bool:
    status = launch.status()
    return status.get("state") == "running" and status.get("epoch") != old_epoch


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
