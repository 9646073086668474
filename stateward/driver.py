"""The driver of a stream: the runtime, with what `state` knows of the state in its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateward.runtime.driver import entry
from stateward.runtime.driver.driver import StateChecks
from stateward.state.compatibility.start import note_start, require_start
from stateward.state.operation.replan import take_back_plan

if TYPE_CHECKING:
    from stateward.runtime.api.any_job import AnyJob

CHECKS = StateChecks(require_start, note_start, take_back_plan)


def run(job: AnyJob, arguments: list[str]) -> int:
    """Run ``job`` with the configuration whose URI is the only argument; returns the exit code."""
    return entry.run(job, arguments, CHECKS)
