"""Starts a driver detached, in the folder of its code, with a log of its own."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from stateward.contract.names import ENV_PREFIX
from stateward.contract.stream_control import Application
from stateward.control.launchers import detach
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT

KEPT_LOGS = 10
"""Log files of earlier drivers that are kept for each stream."""

_START_TIMEOUT_S = 30


@dataclass(frozen=True)
class Prepared:
    """What is about to be launched.

    Attributes:
        log: The driver's log file.
        release: The release that it is.
        application: The application that a cluster will run, without its id; None for a process of this host.
    """

    log: Path
    release: str
    application: Application | None = None


class LaunchError(RuntimeError):
    """A driver could not be submitted. Not a crash of the stream: trying again would not help."""


@dataclass(frozen=True)
class DriverCommand:
    """What is started, and with which environment.

    Attributes:
        application: What a cluster will run, without its id; None for a process of this host.
    """

    arguments: list[str]
    environment: dict[str, str]
    application: Application | None = None


def log_file(layout: Layout, stream: str, run_id: str, now: datetime) -> Path:
    """Name the log of a launch, and remove the oldest of the stream's others."""
    folder = layout.driver_log_dir(stream)
    folder.mkdir(parents=True, exist_ok=True)
    # The name starts with the time, so that the order of names is that of age.
    for old in sorted(folder.glob("driver-*.log"))[: -(KEPT_LOGS - 1)]:
        old.unlink(missing_ok=True)
    return folder / f"driver-{now:%Y%m%dT%H%M%SZ}-{run_id}.log"


def code_folder(environment: Mapping[str, str]) -> Path:
    """Return where a driver or a job has to be started.

    Spark starts its Python workers with `-m`, which puts the working directory in front of everything:
    anywhere else they could run other code than their driver.

    Args:
        environment: That of `driver_environment`.
    """
    return Path(environment.get("PYTHONPATH", CHECKOUT))


def wait_until_noted(log: Path, timeout_s: float = 2.0) -> None:
    """Wait until the process that waits for a driver which is gone has noted how it ended.

    It holds a lock on the log until then. Without a process that waits for the driver, this returns at once.

    Args:
        log: The driver's log.
        timeout_s: How long to wait at most, in seconds.

    Raises:
        OSError: The log cannot be read.
    """
    deadline = time.monotonic() + timeout_s
    with log.open("rb") as file:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
            else:
                return


def start(command: DriverCommand, log: Path) -> int:
    """Start a command detached from this process.

    Args:
        command: What to start.
        log: The file that takes its output.

    Returns:
        Its process id, which is also its process group and session. `spark-submit` replaces
        itself by the JVM, so this is the JVM's id.

    Raises:
        LaunchError: The program is missing or cannot be executed.
    """
    script = str(Path(detach.__file__).resolve())
    try:
        done = subprocess.run(
            # -I: nothing of the caller's PYTHONPATH may get in the way of the standard library.
            [sys.executable, "-I", script, str(log), *command.arguments],
            # Without our marks: the process that waits for the driver is none of the driver's.
            env={name: text for name, text in command.environment.items() if not name.startswith(ENV_PREFIX)},
            cwd=code_folder(command.environment),
            input=json.dumps(dict(command.environment)),
            capture_output=True,
            text=True,
            timeout=_START_TIMEOUT_S,
            check=True,
            start_new_session=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stdout", None) or getattr(error, "stderr", None) or str(error)
        last = said.strip().splitlines()[-1]
        raise LaunchError(
            f"could not start {command.arguments[0]}: {last}. Its output, if any, is in {log}."
        ) from error
    return int(done.stdout)
