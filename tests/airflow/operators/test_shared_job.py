"""Tasks that would start the same job: one starts it, and it does what the others ask for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import filelock
import pytest

from stateward.airflow.shared_job import queue_of, run_or_wait
from stateward.contract.job_queue import JobQueue

pytestmark = pytest.mark.airflow

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
_DEADLINE_S = 60


@pytest.fixture
def queue(tmp_path: Path) -> JobQueue:
    return queue_of(tmp_path, "spark_default", {"spark.driver.memory": "1g"}, "spark.jar")


class Jobs:
    """Jobs of tasks: each waits for a go, and then does what it finds in the queue."""

    def __init__(self, queue: JobQueue) -> None:
        self.queue = queue
        self.started: list[list[str]] = []
        self.done: list[list[str]] = []
        self.runs, self.go, self.waits = threading.Event(), threading.Event(), threading.Event()

    def submit(self, arguments: list[str]) -> None:
        self.started.append(arguments)
        self.runs.set()
        assert self.go.wait(_DEADLINE_S), "expected the test to let the job go on"
        self.done.append(arguments[:-2])
        while True:
            with self.queue.take() as taken:
                if taken is None:
                    return
                self.done.append(taken)

    def task(self, name: str) -> None:
        run_or_wait(self.queue, [name], NOW, self.submit, self.waits.set)


def test_a_task_hands_its_command_to_the_job_that_runs(queue: JobQueue) -> None:
    jobs = Jobs(queue)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(jobs.task, "a")
        assert jobs.runs.wait(_DEADLINE_S), "expected the first task to start a job"
        second = pool.submit(jobs.task, "b")
        assert jobs.waits.wait(_DEADLINE_S), "expected the second task to wait"
        jobs.go.set()
        first.result(_DEADLINE_S)
        second.result(_DEADLINE_S)
    assert jobs.started == [["a", "--queue", str(queue.folder)]]
    assert jobs.done == [["a"], ["b"]]


@contextmanager
def waiting_task(jobs: Jobs) -> Iterator[None]:
    """A task that waits for another's job; that job ends with the block, and the task with its own."""
    jobs.go.set()
    jobs.queue.folder.mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        with filelock.FileLock(jobs.queue.folder / ".lock"):
            task = pool.submit(jobs.task, "a")
            assert jobs.waits.wait(_DEADLINE_S), "expected the task to wait"
            yield
        task.result(_DEADLINE_S)


def test_a_command_that_no_job_has_taken_gets_a_job_of_its_own(queue: JobQueue) -> None:
    jobs = Jobs(queue)
    with waiting_task(jobs):
        assert jobs.started == []
    assert jobs.done == [["a"]]


def test_a_command_that_a_job_has_ended_with_gets_a_job_of_its_own(queue: JobQueue) -> None:
    jobs = Jobs(queue)
    with waiting_task(jobs):
        [waiting] = queue.folder.glob("*.json")
        waiting.rename(waiting.with_suffix(".taken"))
    assert jobs.done == [["a"]]
    assert [file for file in queue.folder.iterdir() if file.name != ".lock"] == []


def test_the_error_of_a_job_is_that_of_the_task_that_started_it(queue: JobQueue) -> None:
    def fail(arguments: list[str]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_or_wait(queue, ["a"], NOW, fail, partial(pytest.fail, "there is no other job"))
    with queue.take() as taken:
        assert taken is None


def test_jobs_of_another_configuration_are_not_waited_for(tmp_path: Path, queue: JobQueue) -> None:
    same = queue_of(tmp_path, "spark_default", {"spark.driver.memory": "1g"}, "spark.jar")
    assert same.folder == queue.folder
    for other in (
        queue_of(tmp_path, "another", {"spark.driver.memory": "1g"}, "spark.jar"),
        queue_of(tmp_path, "spark_default", {"spark.driver.memory": "2g"}, "spark.jar"),
        queue_of(tmp_path, "spark_default", {"spark.driver.memory": "1g"}, "later.jar"),
    ):
        assert other.folder != queue.folder
