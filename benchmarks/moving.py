"""`python -m benchmarks.moving`: a large state is repartitioned from 4 to 7 and to 2 in mid-stream.

The driver of `user_sessions` is drained at half of the topic. Then, each as a process of its own: inspect,
savepoint, repartition to 7, repartition to 2, and both comparisons with the savepoint. The driver goes on
with 2 partitions, and the sessions are compared with the oracle's. Beside it is measured what simply reading
and rewriting the same state takes (`benchmarks.states.rewriting`).
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness.environments import emptied
from benchmarks.harness.fill import benchmark_broker, fill_topic
from benchmarks.harness.measure import task_of
from benchmarks.harness.operations import Done, Operations
from benchmarks.harness.oracle import answer_of, expected
from benchmarks.harness.results import append_result
from benchmarks.harness.user_sessions import Stateward
from benchmarks.harness.workload import GAP_MS, Workload, end_ms, generate
from benchmarks.peers.task import Task
from stateward.project.settings import CHECKOUT, Settings
from tests.support.spark.launches import Launch
from tests.support.waiting import wait_until

RESULTS = "moving.jsonl"
_FIRST, _MOVES = 4, (7, 2)
# Some users have no session at a time. Each has four events, so all occur in the first half.
_USERS_PER_KEY, _EVENTS_PER_USER = 1.25, 4
_BATCHES = 50
_RUN_ID = "bench"


def main(arguments: list[str]) -> int:
    """Measure, check the answer, and print a line of JSON; returns 0 unless something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.moving", description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000, help="with a state (%(default)s)")
    parser.add_argument("--size", type=int, default=300, help="bytes of a record's value (%(default)s)")
    given = parser.parse_args(arguments)
    users = round(given.keys * _USERS_PER_KEY)
    workload = Workload(users * _EVENTS_PER_USER, given.size, users)
    events = generate(workload)
    cache = Settings().home / "bench"
    folder = emptied(cache / "moving")
    result: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpus": psutil.cpu_count(),
        "load_before": round(psutil.getloadavg()[0], 2),
        "workload": workload.as_json(),
    }
    with benchmark_broker(cache / "kafka") as broker:
        fill_topic(broker.bootstrap, workload, events)
        variant = f"batch_{workload.events // _BATCHES}"
        task = task_of(workload, end_ms(events), folder, broker.bootstrap, variant)
        drill = Drill(Stateward(), replace(task, parallelism=_FIRST), workload)
        result.update(drill.run())
        answer, right = answer_of(drill.contestant.rows(task)), expected(events, GAP_MS)
    result.update(answer=answer.as_json(), correct=answer == right)
    append_result(cache / RESULTS, result)
    print(json.dumps(result), flush=True)
    return 0 if result["correct"] and result["keys"] >= given.keys else 1


@dataclass(frozen=True)
class Drill:
    """One run.

    Attributes:
        contestant: The stream.
        task: What it reads, and where it writes.
        workload: What is in the topic.
    """

    contestant: Stateward
    task: Task
    workload: Workload

    def run(self) -> dict[str, Any]:
        """Run everything; returns the figures."""
        launch = self.contestant.launch_of(self.task)
        try:
            stopped = self._to_half(launch)
            operations = Operations(launch, _RUN_ID)
            found = _moved(launch, operations, self._yardstick)
            resumed = self._to_the_end(launch, stopped)
        finally:
            launch.kill_all()
        return {"consumed_at_half": stopped["delivered"], **found, **resumed}

    def _to_half(self, launch: Launch) -> dict[str, Any]:
        """Drain at half of the topic; returns the last status."""
        _tell("reading half of the topic")
        driver = self.contestant.start_in(launch, self.task)
        half = self.workload.events // 2
        wait_until(
            lambda: (_status(launch, driver).get("delivered") or 0) >= half, 900, "half of the topic is read"
        )
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(120) == 0, launch.log(_RUN_ID).read_text()[-2000:]
        status = launch.status()
        assert status["state"] == "stopped", status
        assert status["delivered"] < self.workload.events, "it was drained after everything was read"
        return status

    def _yardstick(self, checkpoint: Path) -> dict[str, Any]:
        """The time to read and rewrite the same state."""
        command = [sys.executable, "-m", "benchmarks.states.rewriting", str(checkpoint)]
        target = emptied(Path(self.task.folder) / "rewritten")
        run = subprocess.run(
            [*command, str(target)], cwd=CHECKOUT, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr[-2000:]
        found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
        return found

    def _to_the_end(self, launch: Launch, stopped: Mapping[str, Any]) -> dict[str, float]:
        """Go on, to the last row; returns how long it took from the start of the driver."""
        _tell("going on")
        begun = time.time()
        driver = self.contestant.start_in(launch, self.task)

        def has(**more: int) -> bool:
            status = _status(launch, driver)
            return status.get("epoch") != stopped["epoch"] and all(
                (status.get(name) or 0) >= least for name, least in more.items()
            )

        wait_until(partial(has, delivered=stopped["delivered"] + 1), 300, "the first batch after it", 0.05)
        first = time.time()
        wait_until(
            lambda: self.contestant.committed_at(self.task, driver), 900, "the last rows are committed"
        )
        return {"first_batch_s": round(first - begun, 1), "to_the_end_s": round(time.time() - begun, 1)}


def _moved(launch: Launch, operations: Operations, yardstick: Any) -> dict[str, Any]:
    """The operations while the stream is stopped."""
    source = _folder(launch)
    size = _size(source)
    looked = _run(operations, "inspect")
    saved = _run(operations, "savepoint", reason="before the move")
    _tell("reading and rewriting")
    simply = yardstick(source)
    partitions, moves = _FIRST, {}
    for wanted in _MOVES:
        moves[f"{partitions} to {wanted}"] = _move(
            _run(operations, "repartition", partitions=wanted), simply, launch
        )
        partitions = wanted
    savepoint = saved.data["savepoint"]
    compared = {
        name: _run(operations, "compare", right=savepoint, by_key=by_key)
        for name, by_key in (("entry by entry", False), ("key by key", True))
    }
    return {
        "keys": looked.data["size"]["keys"],
        "live_bytes": looked.data["size"]["key_bytes"] + looked.data["size"]["value_bytes"],
        "checkpoint_bytes": size,
        "checkpoint_files": saved.data["files"],
        "rewriting": simply,
        "inspect": {"seconds": looked.seconds, "steps": looked.began},
        "savepoint": {"seconds": saved.seconds, "bytes": saved.data["size"]},
        "repartition": moves,
        "compare": {
            name: {"seconds": done.seconds, "entries": sum(done.data["left"].values())}
            for name, done in compared.items()
        },
    }


def _move(done: Done, simply: Mapping[str, Any], launch: Launch) -> dict[str, Any]:
    """Its steps, and its time relative to reading and rewriting."""
    steps = {step["name"]: step for step in done.data["steps"]}
    working = sum(step["seconds"] for step in steps.values())
    return {
        "seconds": done.seconds,
        "steps_seconds": round(working, 1),
        "steps": {
            name: {"seconds": round(step["seconds"], 1), "bytes": step["bytes_written"]}
            for name, step in steps.items()
        },
        "bytes": _size(_folder(launch)),
        "entries": sum(digest["entries"] for digest in done.data["digests"].values()),
        "over_copying_files": round(working / simply["files"]["seconds"], 2),
        "over_spark_to_parquet": round(working / simply["parquet"]["seconds"], 2),
    }


def _run(operations: Operations, verb: str, **given: Any) -> Done:
    _tell(f"{verb} {', '.join(f'{name} {value}' for name, value in given.items())}")
    done = operations.run(verb, **given)
    _tell(f"  {done.seconds:,.1f} s {done.began}")
    return done


def _status(launch: Launch, driver: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert driver.poll() is None, f"the driver ended: {launch.log(_RUN_ID).read_text()[-2000:]}"
    return launch.status()


def _folder(launch: Launch) -> Path:
    """The current generation's."""
    return Path(launch.checkpoint.removeprefix("file://"))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _tell(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
