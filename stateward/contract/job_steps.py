"""How a batch job says on its standard output what it is doing: a line a step, and why it could not be done.

All else that it writes there belongs into its log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

Report = Callable[[str, str], None]
"""Takes a part of the work and what happens to it; `READY` ends a part."""

READY: Final = "ready"
_STEP, _ERROR = "@step", "@error"


class Step(NamedTuple):
    """A part of the work, and what happens to it."""

    part: str
    what: str

    def line(self) -> str:
        """The line that says it."""
        return "\t".join((_STEP, *self))


class Failure(NamedTuple):
    """Why the work could not be done; the last line of such a job."""

    reason: str

    def line(self) -> str:
        """The line that says it."""
        return "\t".join((_ERROR, " ".join(self.reason.split("\n"))))


def step_in(line: str) -> Step | Failure | None:
    """What a line of the output says; None for one that belongs into the log."""
    kind, *parts = line.rstrip("\n").split("\t")
    if kind == _STEP and len(parts) == 2:
        return Step(*parts)
    return Failure("\t".join(parts)) if kind == _ERROR else None
