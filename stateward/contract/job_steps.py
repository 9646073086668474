"""How a batch job reports on its standard output: a line for each step, and the reason of a failure.

Everything else on its standard output belongs in its log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

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
