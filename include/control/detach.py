"""Start a command that outlives whoever asked for it, print its process id, and note how it ends.

Run as a script by `driver_process`. A direct child of an Airflow task would stay behind as a zombie, be
killed with the task's process group, and hold the task's pipes open. So the command gets a session of its
own, and a parent that init adopts: this script forks, and its child starts the command, waits for it, and
adds to the log how it has ended, which only a parent can see.

The environment of the command comes on standard input, as JSON, and is not that of the waiting process: by
the marks in it the processes of a driver are found, to be drained or killed.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def main(log: str, command: list[str]) -> int:
    """Start `command` with its output appended to the file `log`, and print its process id."""
    environment = json.load(sys.stdin)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A signal that the task ignores would be ignored by the driver too.
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        _start_and_wait(log, command, environment, writer)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    sys.stdout.write(f"{said}\n")
    return 0 if said.isdecimal() else 1


def _start_and_wait(log: str, command: list[str], environment: dict[str, str], answer: int) -> None:
    with Path(log).open("ab") as output, Path(log).open("ab") as lock:
        # Until the end is noted: see `driver_process.wait_until_noted`. The command does not inherit it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            os.write(answer, str(error).encode())
            os._exit(1)
        os.write(answer, str(process.pid).encode())
        os.close(answer)
        _let_go_of_the_caller()
        code = process.wait()
        output.write(f"\nstateward: process {process.pid} {_ended(code)}\n".encode())
        output.flush()
    os._exit(0)


def _let_go_of_the_caller() -> None:
    """Hold neither its pipes nor its folder, which may be a release that is cleared away."""
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _ended(code: int) -> str:
    # Read by `driver_exit`.
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
