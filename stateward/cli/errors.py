"""Errors of the command line: which are a person's to act on, and how it is interrupted."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

# Errors of our own modules derive from these two; anything else is a defect and keeps its traceback.
EXPECTED = (RuntimeError, ValueError, OSError)


class Interrupted(BaseException):
    """SIGTERM or SIGINT arrived; like KeyboardInterrupt it passes through `except Exception`."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into `Interrupted` while the block runs, so that `finally` clauses clean up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Ignore SIGTERM and SIGINT while the block runs: clean-up that a second Ctrl-C must not cut short."""
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def run_command(name: str, command: Callable[[], object]) -> None:
    """Run a command line; errors a person can act on are shown without a traceback.

    Args:
        name: What these errors begin with.
        command: Reads the arguments of the process, and does it.

    Raises:
        SystemExit: The command was interrupted (130), or a person has to do something (1).
    """
    try:
        with interruptible():
            command()
    except Interrupted:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except EXPECTED as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
