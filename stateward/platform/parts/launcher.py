"""What the supervisor runs for each part: clear away a killed predecessor, then become the part."""

from __future__ import annotations

import os
import sys

from stateward.contract.names import ENV_PART
from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.registry import AIRFLOW_PARTS, KAFKA, WORKER
from stateward.platform.processes import end, find_owned
from stateward.project.settings import Settings


def main(part: str) -> None:
    """Replace this process by `part`.

    After a SIGKILL of, say, the scheduler, its log server and task runners live on: they hold its port, and
    could run a task that the new scheduler runs again. Drivers are left alone.
    """
    settings = Settings()
    leftovers = [one.process for one in find_owned(settings.home) if one.part == part and one.stream is None]
    end(leftovers, grace_s=5)
    command, environ = _command(part, settings)
    os.execvpe(command[0], command, {**environ, ENV_PART: part})


def _command(part: str, settings: Settings) -> tuple[list[str], dict[str, str]]:
    if part == KAFKA.name:
        broker = Broker.of(settings)
        broker.prepare()
        return broker.command(), broker.environment()
    if part == WORKER.name:
        return [sys.executable, "-m", "airflow", "celery", "worker"], dict(os.environ)
    if part in {one.name for one in AIRFLOW_PARTS}:
        return [sys.executable, "-m", "airflow", part], dict(os.environ)
    raise SystemExit(f"no such part: {part}")


if __name__ == "__main__":
    main(sys.argv[1])
