"""Errors of the command line that a user can act on, and its interruption."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

# The project's errors derive from these two; anything else is a bug and keeps its traceback.
EXPECTED = (RuntimeError, ValueError, OSError)


# The extra of the package that brings a module which not every installation has.
EXTRAS = {
    "airflow": "airflow",
    "duckdb": "sql",
    "great_expectations": "quality",
    "jgo": "spark",
    "pyspark": "spark",
    "supervisor": "embedded",
    "tenacity": "spark",
}


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
    """Run a command line; errors that a user can act on are shown without a traceback.

    Args:
        name: The prefix of these errors.
        command: The command; reads the arguments of the process.

    Raises:
        SystemExit: The command was interrupted (130), or failed with such an error (1).
    """
    try:
        with interruptible():
            command()
    except Interrupted:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        print(
            f"{name}: expected the module {error.name}, found none. Install the extra {extra}:"
            f" pip install 'stateward[{extra}]' (docs/install-into-airflow.md).",
            file=sys.stderr,
        )
        sys.exit(1)
    except EXPECTED as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
