"""Ending processes: some leave by themselves, some do not, some become zombies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from stateward.platform.processes import drain

# Starts a process and never asks what became of it: that one is a zombie once it has ended.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""
LEAVES = "print('ready', flush=True); import time; time.sleep(600)"
STAYS = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + LEAVES

# Who waits for it is ended before.
DEADLINE_S = 3600.0


@pytest.fixture
def started() -> Iterator[Callable[[str], psutil.Process]]:
    """Start code in a process whose parent, another one, does not wait for it."""
    parents: list[subprocess.Popen[str]] = []

    def start(code: str) -> psutil.Process:
        command = [sys.executable, "-c", PARENT, code]
        parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        parents.append(parent)
        assert parent.stdout is not None
        return psutil.Process(int(parent.stdout.readline()))

    yield start
    for parent in parents:
        for child in psutil.Process(parent.pid).children():
            child.kill()
        parent.communicate()


def test_a_process_that_has_left_is_not_waited_for(started: Callable[[str], psutil.Process]) -> None:
    process = started(LEAVES)
    assert drain([process], DEADLINE_S)
    assert process.status() == psutil.STATUS_ZOMBIE, "its parent has not asked for it"


def test_a_process_that_does_not_leave_is_killed(started: Callable[[str], psutil.Process]) -> None:
    process = started(STAYS)
    assert not drain([process], 0.2)
    assert process.status() == psutil.STATUS_ZOMBIE


def test_nothing_to_drain_is_drained() -> None:
    assert drain([], DEADLINE_S)
