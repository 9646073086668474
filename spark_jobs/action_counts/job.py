"""Entry point of the driver: ``spark-submit spark_jobs/action_counts/job.py <configuration URI>``."""

from __future__ import annotations

import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run the stream until it is drained; returns the exit code (docs/architecture.md)."""
    from spark_jobs.action_counts.declaration import JOB
    from stateward.driver import run

    return run(JOB, arguments)


if __name__ == "__main__":
    # spark-submit puts this file's folder on the path, not the checkout's.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    sys.exit(main(sys.argv[1:]))
