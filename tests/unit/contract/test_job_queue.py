"""Commands in a folder: in their order, each taken once, and done when the job that took it says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stateward.contract.job_queue import JobQueue

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def queue(tmp_path: Path) -> JobQueue:
    return JobQueue(tmp_path / "queue")


def test_commands_are_taken_in_their_order_and_done_afterwards(queue: JobQueue) -> None:
    later = queue.put(["--table", "b"], NOW + timedelta(seconds=1))
    first = queue.put(["--table", "a"], NOW)
    for queued, expected in ((first, ["--table", "a"]), (later, ["--table", "b"])):
        with queue.take() as taken:
            assert taken == expected
            assert not queued.is_done()
        assert queued.is_done()
    with queue.take() as taken:
        assert taken is None


def test_a_command_that_is_withdrawn_is_not_taken(queue: JobQueue) -> None:
    queue.put(["a"], NOW).withdraw()
    with queue.take() as taken:
        assert taken is None


def test_a_command_is_done_when_its_job_fails_with_it(queue: JobQueue) -> None:
    queued = queue.put(["a"], NOW)
    with pytest.raises(ZeroDivisionError), queue.take():
        raise ZeroDivisionError
    assert queued.is_done()


def test_what_is_no_command_is_left_out_once(queue: JobQueue) -> None:
    broken = queue.put(["a"], NOW)
    broken.waiting.write_text('{"table": "a"}')
    queue.put(["b"], NOW + timedelta(seconds=1))
    with pytest.raises(ValueError, match="expected a list of texts, found another document"), queue.take():
        pass
    with queue.take() as taken:
        assert taken == ["b"]


def test_what_a_job_has_ended_with_is_forgotten(queue: JobQueue) -> None:
    queued, waiting = queue.put(["a"], NOW), queue.put(["b"], NOW)
    queued.waiting.rename(queued.taken)  # as a job that was killed leaves it
    assert not queued.is_done()
    queue.forget_taken()
    assert queued.is_done()
    assert not waiting.is_done()
