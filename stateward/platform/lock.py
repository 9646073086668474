"""Locks of an installation on one host: one `up` or `down` at a time, and one holder of a file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock


class LockTimeoutError(RuntimeError):
    """Another command kept the installation locked for too long."""


@contextlib.contextmanager
def exclusive(home: Path, timeout_s: float, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the installation's lock.

    The folder itself is locked, so that no file is left behind; the system frees it when its holder dies.

    Args:
        home: folder of the installation; created when missing.
        timeout_s: how long to wait for another holder, seconds.
        on_wait: called once if there is another holder.

    Raises:
        LockTimeoutError: the other holder was still there.
    """
    home.mkdir(parents=True, exist_ok=True)
    handle = os.open(home, os.O_RDONLY)
    try:
        _acquire(handle, home, timeout_s, on_wait)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, home: Path, timeout_s: float, on_wait: Callable[[], None]) -> None:
    deadline = time.monotonic() + timeout_s
    waiting = False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise LockTimeoutError(
                    f"{home} is locked by another `stateward up` or `down` for more than {timeout_s:g} s; "
                    "wait for it or end it, then try again"
                ) from error
        if not waiting:
            on_wait()
            waiting = True
        time.sleep(0.1)


@contextlib.contextmanager
def only_holder(file: Path) -> Iterator[bool]:
    """Hold the lock of a file; False when another process holds it. The system frees it when its holder dies.

    Args:
        file: the file; it and its folder are created when missing.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(file, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
