"""What an operation has decided, begun and done: written down first, so that it can be finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from stateward.contract import storage
from stateward.runtime.telemetry.status import iso

_VERSION = 1


class Journal:
    """The journal of one operation.

    Args:
        uri: Its file; what is there is read.
        clock: The time, aware.
    """

    def __init__(self, uri: str, clock: Callable[[], datetime]) -> None:
        self.uri = uri
        self._clock = clock
        self._document = storage.read_json(uri) or {"version": _VERSION, "plan": None, "steps": {}}

    @property
    def plan(self) -> Mapping[str, Any] | None:
        """What was decided; None before `decide`."""
        plan: Mapping[str, Any] | None = self._document["plan"]
        return plan

    def decide(self, plan: Mapping[str, Any]) -> None:
        """Write down what will be done."""
        self._document["plan"] = dict(plan)
        self._write()

    def once(self, step: str, act: Callable[[], None]) -> None:
        """Do a step unless it is done.

        Args:
            step: Its name.
            act: Does it; a second time after a first that was interrupted has to do no harm.
        """
        steps = self._document["steps"]
        if steps.get(step, {}).get("done"):
            return
        steps[step] = {"begun": iso(self._clock())}
        self._write()
        act()
        steps[step]["done"] = iso(self._clock())
        self._write()

    def _write(self) -> None:
        storage.write_json(self.uri, self._document)
