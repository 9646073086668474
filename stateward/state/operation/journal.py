"""The journal of an operation: its decision and its steps, written before they are done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from stateward.contract import storage
from stateward.contract.reading import iso

_VERSION = 1


class Journal:
    """The journal of one operation.

    Args:
        uri: The file; an existing one is read.
        clock: Returns the time, aware.
    """

    def __init__(self, uri: str, clock: Callable[[], datetime]) -> None:
        self.uri = uri
        self._clock = clock
        self._document = storage.read_json(uri) or {"version": _VERSION, "plan": None, "steps": {}}

    @property
    def plan(self) -> Mapping[str, Any] | None:
        """The decision; None before `decide`."""
        plan: Mapping[str, Any] | None = self._document["plan"]
        return plan

    def decide(self, plan: Mapping[str, Any]) -> None:
        """Write the decision down."""
        self._document["plan"] = dict(plan)
        self._write()

    def once(self, step: str, act: Callable[[], None]) -> None:
        """Do a step unless it is done.

        Args:
            step: Its name.
            act: Does it. It may run again after an interruption, so it has to be idempotent.
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
