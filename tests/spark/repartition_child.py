"""A repartition in a process of its own, which a test kills, or which kills itself in the middle of the copy.

Arguments: source, target, partitions, and after how many copied files it dies (0: it does not).
"""

from __future__ import annotations

import os
import signal
import sys

from spark_jobs.runtime import session
from spark_jobs.state.repartition import repartition


def main(source: str, target: str, partitions: str, dies_after: str) -> None:
    def report(step: str, state: str) -> None:
        if step == "copy" and state.startswith(f"{dies_after} of "):
            # With its JVM: the test has given both a process group of their own.
            os.killpg(0, signal.SIGKILL)

    spark = session.create_session("child", 2, session.checkpoint_conf(source))
    repartition(spark, source, target, int(partitions), report)


if __name__ == "__main__":
    main(*sys.argv[1:])
