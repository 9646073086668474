"""What a process returns to the one that started it: its exit code, and the lines of a batch job's output.

A batch job writes a line to its standard output for each step, and for the reason of a failure. Everything
else there belongs in its log.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple


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


class PlanExit(IntEnum):
    """What `stateward plan` has found. 1 is an error, 2 a wrong option."""

    ALLOWED = 0
    """Nothing changes, or an upgrade may be made."""
    REFUSED = 3
    """An upgrade would be refused: the state needs a migration, or is incompatible."""


class UpdateExit(IntEnum):
    """What `stateward update` has done. 1 is an error, 2 a wrong option."""

    DONE = 0
    CONFLICT = 3
    """Files have conflicts, of this update or of an earlier one, that a person has to resolve."""


Report = Callable[[str, str], None]
"""Takes a part of the work and its progress; `READY` ends a part."""

READY: Final = "ready"
_STEP, _ERROR = "@step", "@error"


class Step(NamedTuple):
    """A part of the work, and its progress."""

    part: str
    what: str

    def line(self) -> str:
        """The line of the output."""
        return "\t".join((_STEP, *self))


class Failure(NamedTuple):
    """Why the work could not be done; the last line of such a job."""

    reason: str

    def line(self) -> str:
        """The line of the output."""
        return "\t".join((_ERROR, " ".join(self.reason.split("\n"))))


def step_in(line: str) -> Step | Failure | None:
    """Parse a line of the output; None for a line that belongs in the log."""
    kind, *parts = line.rstrip("\n").split("\t")
    if kind == _STEP and len(parts) == 2:
        return Step(*parts)
    return Failure("\t".join(parts)) if kind == _ERROR else None
