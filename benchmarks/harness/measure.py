"""One run of one contestant: start it, wait for its last row, check its output, and measure it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness.contestants import Contestant, RunError, log_tail
from benchmarks.harness.oracle import Answer, answer_of
from benchmarks.harness.sampling import Watch
from benchmarks.harness.workload import GAP_MS, LATENESS_MS, TICK_USER, Workload
from benchmarks.peers.task import Task
from tests.support.kafka.broker import RunningBroker
from tests.support.waiting import wait_until

PARALLELISM = 2
COMMIT_INTERVAL_MS = 5_000
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Entry:
    """A contestant in one of its variants."""

    contestant: Contestant
    variant: str = ""

    @property
    def name(self) -> str:
        """Name in results."""
        variant = f"={self.variant}" if self.variant else ""
        return f"{self.contestant.name}{variant}{self.contestant.checkout.mark}"


@dataclass(frozen=True)
class Course:
    """What all runs of a series have in common.

    Attributes:
        broker: with the topics of the workload.
        workload: what is in them.
        answers: what the output of each contestant must amount to, by name.
        end_ms: event time of the last record of each partition.
        folder: for the folders of the runs.
        jars: of each contestant, by name.
        timeout_s: for one run.
        keep: leave the folders of the runs.
    """

    broker: RunningBroker
    workload: Workload
    answers: dict[str, Answer]
    end_ms: int
    folder: Path
    jars: dict[str, list[Path]]
    timeout_s: float
    keep: bool


def measure(entry: Entry, course: Course) -> dict[str, Any]:
    """Run a contestant once; `problem` in the result has the error, if there is one."""
    task = _new_task(entry, course)
    expected = course.answers[entry.contestant.name]
    before = {"load_before": round(os.getloadavg()[0], 2), "busy_before_percent": psutil.cpu_percent(1.0)}
    result = {
        "contestant": entry.name,
        **entry.contestant.checkout.origin(),
        "durability": entry.contestant.durability,
        "workload": course.workload.as_json(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        **before,
        "expected": expected.as_json(),
        "correct": False,
        "problem": "",
    }
    try:
        result.update(_run(entry.contestant, task, course))
        answer = answer_of(entry.contestant.rows(task))
        result.update(answer=answer.as_json(), correct=answer == expected)
        if answer != expected:
            result["problem"] = f"expected {expected}, found {answer}"
    except (RunError, AssertionError, ValueError) as error:
        result["problem"] = str(error)
    # Keep the folder to diagnose the failure.
    if not (course.keep or result["problem"]):
        shutil.rmtree(task.folder)
    return result


def _new_task(entry: Entry, course: Course) -> Task:
    # It also contains topics, which have neither sign.
    name = entry.name.replace("=", "-").replace("@", "-")
    folder = course.folder / f"{name}-{time.time_ns()}"
    folder.mkdir(parents=True)
    return task_of(
        course.workload,
        course.end_ms,
        folder,
        course.broker.bootstrap,
        entry.variant,
        jars=course.jars[entry.contestant.name],
        needs_flush=entry.contestant.needs_flush,
    )


def task_of(
    workload: Workload,
    ends_ms: int,
    folder: Path,
    bootstrap: str,
    variant: str,
    *,
    jars: Sequence[Path] = (),
    needs_flush: bool = False,
) -> Task:
    """What a contestant has to do; ``ends_ms`` is the event time of the end of the topic."""
    return Task(
        bootstrap_servers=bootstrap,
        topic=workload.topic(needs_flush),
        partitions=workload.partitions,
        gap_ms=GAP_MS,
        lateness_ms=LATENESS_MS,
        folder=str(folder),
        parallelism=PARALLELISM,
        commit_interval_ms=COMMIT_INTERVAL_MS,
        variant=variant,
        jars=[str(jar) for jar in jars],
        tick_user=TICK_USER,
        is_spoilt=bool(workload.spoilt_percent),
        end_ms=ends_ms,
        group=f"bench-{time.time_ns()}",
    )


def _run(contestant: Contestant, task: Task, course: Course) -> dict[str, Any]:
    assert course.broker.process is not None
    reaped_before = _reaped_cpu_s()
    launched_at = time.time()
    process = contestant.start(task)
    watch = Watch(process.pid, course.broker.process.pid)
    watch.start()
    try:
        committed_at = wait_until(
            lambda: contestant.committed_at(task, process),
            course.timeout_s,
            lambda: f"{contestant.name} has committed its last row: {log_tail(task)}",
        )
        # Samples miss the time after the last one, which a running program has yet to use.
        reaped_s = 0.0 if process.poll() is None else _reaped_cpu_s() - reaped_before
    finally:
        watch.stop()
        sampled_s = watch.cpu_s
        watch.end_processes()
        _reap(process)
    reading_since = watch.reading_since or launched_at
    first_at = contestant.first_committed_at(task)
    records = course.workload.records(contestant.needs_flush)
    consume_s = committed_at - reading_since
    return {
        "total_s": round(committed_at - launched_at, 2),
        "start_s": round(reading_since - launched_at, 2),
        "first_commit_s": None if first_at is None else round(first_at - launched_at, 2),
        "consume_s": round(consume_s, 2),
        "events_per_s": round(records / consume_s),
        "cpu_s": round(max(sampled_s, reaped_s), 2),
        "broker_cpu_s": round(watch.broker_cpu_s, 2),
        "peak_rss_mib": round(watch.peak_rss_bytes / _MIB),
    }


def _reap(process: subprocess.Popen[bytes]) -> None:
    process.wait(timeout=30)


def _reaped_cpu_s() -> float:
    """CPU seconds of all children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
