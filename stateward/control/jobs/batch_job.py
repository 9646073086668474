"""Runs a batch job in the foreground: its steps are reported as they come, all else goes to its log."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from stateward.contract.names import ENV_DRIVER_RUN_ID, ENV_DRIVER_STREAM, ENV_OPERATION
from stateward.contract.process_output import JobExit, Report, Step, step_in
from stateward.control.jobs.job_resources import JobKind, submitted
from stateward.control.launchers import processes
from stateward.control.launchers.driver_process import code_folder
from stateward.control.launchers.executor_dependencies import cluster_conf, conf_arguments
from stateward.control.launchers.launch import driver_environment, spark_jars
from stateward.control.launchers.local_jvm import local_jvm_conf
from stateward.project.settings import LIBRARY, Settings
from stateward.project.spec import StreamSpec

_GRACE_S = 10
_TAIL = 15

# Where the script of each job lies in the library.
_FOLDERS = {"state": "state", "backfill": "recompute", "try": "trial"}


class JobError(RuntimeError):
    """The job failed; the text is its own, or the end of its log."""


def python_command(job: str, request_uri: str, settings: Settings) -> list[str]:
    """Return the command of a job that needs no Spark; `job` is its folder in `spark_jobs`."""
    return [sys.executable, str(_script(job)), request_uri]


def spark_command(
    job: str,
    request_uri: str,
    *,
    kind: JobKind,
    name: str,
    spec: StreamSpec,
    settings: Settings,
    master: str,
) -> list[str]:
    """Return the command that submits a job to Spark.

    Args:
        job: Its name: `state`, `backfill` or `try`.
        request_uri: Its one argument.
        kind: Its kind, by which it is declared what it takes.
        name: What the cluster shows it as.
        spec: The stream it is about.
        settings: Where the JARs are.
        master: Where Spark runs.

    Raises:
        LaunchError: There are no JARs of Spark, what is declared is not valid, or the executors cannot get
            their code or environment.
    """
    given = submitted(kind, spec, settings, master)
    conf = {
        **given.conf,
        **local_jvm_conf(settings.jars, master, given.conf),
        **cluster_conf(settings, master, given.conf),
    }
    return [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", master),
        *("--name", name),
        *("--driver-memory", given.driver_memory),
        *("--jars", spark_jars(settings)),
        *conf_arguments(conf),
        str(_script(job)),
        request_uri,
    ]


def _script(job: str) -> Path:
    return LIBRARY / _FOLDERS[job] / "job.py"


def environment(settings: Settings, stream: str, operation: str = "") -> dict[str, str]:
    """Return a job's environment: a driver's, without the marks by which drivers are found and ended.

    Args:
        settings: Passed on as `STATEWARD_*`.
        stream: The stream it is about.
        operation: The mark by which `end_left_over` finds it.
    """
    variables = driver_environment(os.environ, settings, stream, "")
    kept = {
        name: value for name, value in variables.items() if name not in (ENV_DRIVER_STREAM, ENV_DRIVER_RUN_ID)
    }
    return {**kept, ENV_OPERATION: operation} if operation else kept


def end_left_over(settings: Settings, operation: str) -> None:
    """End the processes of an attempt whose task was killed: their output has no reader any more.

    Raises:
        JobError: They cannot be ended.
    """
    left = processes.kill(processes.of_operation(settings.home, operation), _GRACE_S)
    if left:
        pids = [one.pid for one in left]
        raise JobError(f"{operation}: processes {pids} of an earlier try survive SIGKILL")


def run(
    arguments: list[str],
    variables: dict[str, str],
    log: Path,
    report: Report,
    line: Callable[[str], object] | None = None,
) -> bool:
    """Run the job to its end.

    Args:
        arguments: The command.
        variables: Its environment.
        log: File for what it says.
        report: Takes each step.
        line: Takes every other line of its output; None: the log does.

    Returns:
        Whether nothing was found to be different, or wrong.

    Raises:
        JobError: It could not be done.
    """
    reason = ""
    with log.open("w") as output, _running(arguments, variables, output.fileno()) as job:
        assert job.stdout is not None
        for text in job.stdout:
            found = step_in(text)
            if isinstance(found, Step):
                report(*found)
            elif found is not None:
                reason = found.reason
            else:
                (line or output.write)(text)
        code = job.wait()
    if code not in (JobExit.DONE, JobExit.DIFFERENT):
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:])
        raise JobError(reason or f"the job ended with {code}; its log {log} ends:\n{tail}")
    return code == JobExit.DONE


@contextlib.contextmanager
def _running(arguments: list[str], variables: dict[str, str], errors: int) -> Iterator[subprocess.Popen[str]]:
    """A process group of its own, which is ended if the block is left before it."""
    job = subprocess.Popen(
        arguments,
        env=variables,
        cwd=code_folder(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
    try:
        yield job
    finally:
        if job.poll() is None:
            _end(job)


def _end(job: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(_GRACE_S)
            return
