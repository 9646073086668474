"""The exit codes of drivers, of batch jobs and of the commands that run them."""

from __future__ import annotations

from enum import IntEnum


class DriverExit(IntEnum):
    """How a driver ended."""

    DRAINED = 0
    FAILED = 1
    REFUSED = 3
    """It did not start: another driver holds the lease, or the checkpoint's state is not for this code."""
    LEASE_LOST = 4


class JobExit(IntEnum):
    """How a batch job ended: a recomputation, an operation on a state, a validation."""

    DONE = 0
    FAILED = 1
    """It could not be done; a crash of Python has this code as well."""
    DIFFERENT = 2
    """It was done, and something is different or wrong."""


class CommandExit(IntEnum):
    """How a command ended that runs a batch job.

    1 and 2 are swapped in comparison with `JobExit`: `diff` and `grep` have them like this, and so do users'
    scripts.
    """

    DONE = 0
    DIFFERENT = 1
    FAILED = 2
