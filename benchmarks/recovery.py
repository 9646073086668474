"""`python -m benchmarks.recovery`: how long a driver with many keys needs after SIGKILL, and its state.

The driver is killed with its workers once it has read half of the topic, and started again at once; then a
second time at three quarters, with the local copies of the states removed, as on another machine.
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
from benchmarks.harness.oracle import answer_of, expected
from benchmarks.harness.results import append_result
from benchmarks.harness.user_sessions import Stateward
from benchmarks.harness.workload import GAP_MS, Workload
from benchmarks.sustained import live_keys, running
from stateward.project.settings import Settings
from tests.support.spark.launches import Launch
from tests.support.waiting import wait_until

_BATCH = 100_000


def main(arguments: list[str]) -> int:
    """Measure, check the answer, and print a line of JSON; returns 0 unless the answer was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recovery", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--events", type=int, default=4_000_000, help="(%(default)s)")
    parser.add_argument("--keys", type=int, default=1_200_000, help="(%(default)s)")
    add_checkout(parser)
    given = parser.parse_args(arguments)
    workload = Workload(given.events, keys=given.keys)
    cache = Settings().home / "bench"
    with running("stateward", workload, cache, variant=f"batch_{_BATCH}", checkout=given.checkout) as run:
        launch, contestant, task = run.launch, run.contestant, run.task
        result = _kill_twice(launch, contestant, task, workload.events)
        wait_until(
            lambda: contestant.committed_at(task, launch.drivers[-1]), 600, "the last rows are committed"
        )
    result |= given.checkout.origin()
    result["correct"] = answer_of(contestant.rows(task)) == expected(run.events, GAP_MS)
    result["workload"] = workload.as_json()
    append_result(cache / "recovery.jsonl", result)
    print(json.dumps(result), flush=True)
    return 0 if result["correct"] else 1


def _kill_twice(launch: Launch, contestant: Stateward, task: Any, events: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    copies = Path(task.folder) / "cache"
    for part, name in ((0.5, "with copies"), (0.75, "without copies")):
        before = _read(launch, int(events * part))
        result["live_keys"] = live_keys(copies)
        result["state_bytes"] = before["state_bytes"]
        result["copy_bytes"] = sum(file.stat().st_blocks * 512 for file in copies.rglob("data.mdb"))
        result["checkpoint_bytes"] = sum(
            file.stat().st_size for file in (Path(task.folder) / "checkpoint").rglob("*") if file.is_file()
        )
        launch.kill_all()
        if name == "without copies":
            shutil.rmtree(copies)
        killed_at = time.time()
        contestant.start_in(launch, task)
        wait_until(partial(_is_running, launch, before["epoch"]), 300, "the driver runs again", 0.05)
        result[f"running again, {name}, s"] = round(time.time() - killed_at, 1)
        _read(launch, before["delivered"] + 1)
        result[f"next batch committed, {name}, s"] = round(time.time() - killed_at, 1)
    return result


def _read(launch: Launch, records: int) -> dict[str, Any]:
    """The status once so many records are read."""

    def found() -> dict[str, Any] | None:
        status = launch.status()
        return status if (status.get("delivered") or 0) >= records else None

    return wait_until(found, 600, lambda: f"{records:,} records are read: {launch.status()}", 0.05)


def _is_running(launch: Launch, old_epoch: int) -> bool:
    status = launch.status()
    return status.get("state") == "running" and status.get("epoch") != old_epoch


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
