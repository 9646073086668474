"""Airflow's API server as a process of its own, and the end of a process with all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import PATIENCE_S, wait_until


@contextmanager
def api_server(
    home: Path, environment: Mapping[str, str], port: int, answers: Callable[[], bool], *options: str
) -> Iterator[None]:
    """Run an API server until it is not needed any more.

    Args:
        home: Its folder, where it writes `server.log`.
        environment: Its environment.
        port: Where it listens.
        answers: Whether it is there.
        options: Further options of `airflow api-server`.
    """
    log = home / "server.log"
    command = [sys.executable, "-m", "airflow", "api-server", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--workers", "1", *options],
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=home,
        )
    try:
        wait_until(answers, PATIENCE_S, lambda: log.read_text()[-2000:], poll_s=0.5)
        yield
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and all others of it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=30)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
