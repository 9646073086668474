"""The driver of every stream: ``spark-submit stateward/driver.py <URI of the configuration>``.

It is the runtime, with what `state` knows of the state in a checkpoint. The configuration names the stream.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # spark-submit puts this file's folder on the path, where `platform` hides the standard library's.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from stateward.project.project import Project
from stateward.runtime.driver import entry
from stateward.runtime.driver.leaving import leave
from stateward.runtime.driver.state_checks import StateChecks
from stateward.state.compatibility.descriptor import with_buckets_of
from stateward.state.compatibility.start import note_start, require_start
from stateward.state.operation.replan import take_back_plan

CHECKS = StateChecks(with_buckets_of, require_start, note_start, take_back_plan)


def run(arguments: list[str]) -> int:
    """Run a stream until it is drained; returns the exit code (docs/architecture.md)."""
    return entry.run(Project.imported().declaration, arguments, CHECKS)


if __name__ == "__main__":
    leave(run(sys.argv[1:]))
