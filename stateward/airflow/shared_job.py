"""One Spark job at a time for tasks of several DAGs that would start the same: the others wait for it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from stateward.contract.job_queue import JobQueue
from stateward.platform.lock import only_holder

_POLL_S = 0.5


def queue_of(home: Path, connection: str, conf: Mapping[str, str], jars: str) -> JobQueue:
    """Return the queue of the jobs that have one Spark connection and one configuration on this host.

    Args:
        home: Folder of the installation.
        connection: The Airflow connection that names the master.
        conf: Spark's settings.
        jars: Spark's JARs.
    """
    same = json.dumps([connection, dict(conf), jars], sort_keys=True)
    return JobQueue(home / "locks" / "jobs" / hashlib.sha256(same.encode()).hexdigest()[:16])


def run_or_wait(
    queue: JobQueue,
    arguments: Sequence[str],
    now: datetime,
    submit: Callable[[list[str]], None],
    on_wait: Callable[[], None],
) -> None:
    """Have a command done: by a job of its own, or by one that runs and takes it from the queue.

    Returns when the job has done it or has ended. Which of them, its results tell.

    Args:
        queue: Where a job looks for further commands.
        arguments: What the job would be started with.
        now: The time, by which commands are ordered.
        submit: Runs a job of its own to its end, with the given arguments. Its errors pass.
        on_wait: Called once if another job runs.
    """
    queued = queue.put(arguments, now)
    waits = False
    try:
        while not queued.is_done():
            with only_holder(queue.folder / ".lock") as is_only:
                if is_only:
                    if not queued.is_done():
                        # No job runs: what one had taken it has ended with, this command perhaps.
                        queue.forget_taken()
                        queued.withdraw()
                        submit([*arguments, "--queue", str(queue.folder)])
                    return
            if not waits:
                on_wait()
                waits = True
            time.sleep(_POLL_S)
    finally:
        queued.withdraw()
