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
import re
import signal
import subprocess
import sys
from pathlib import Path

_ENDED = "process_ended"
# For people and the last release, whose drivers' logs end with it.
_SENTENCE = re.compile(r"stateward: process (\d+) (?:was killed by (SIG\w+)|exited with (\d+))")


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
        output.write(_note(process.pid, code).encode())
        output.flush()
    os._exit(0)


def _let_go_of_the_caller() -> None:
    """Hold neither its pipes nor its folder, which may be a release that is cleared away."""
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _note(pid: int, code: int) -> str:
    """Say how a process ended: in a sentence, then as a line of JSON, which `end_noted` reads."""
    by, exited = (signal.Signals(-code).name, None) if code < 0 else (None, code)
    said = f"was killed by {by}" if by else f"exited with {exited}"
    line = json.dumps({"stateward": _ENDED, "pid": pid, "signal": by, "code": exited})
    return f"\nstateward: process {pid} {said}\n{line}\n"


def end_noted(log: str, pid: int | None) -> tuple[str | None, int | None] | None:
    """Return how the process `pid` ended; None while it lives, and where its end was not noted.

    Args:
        log: The end of the log that its output goes to.
        pid: The process.

    Returns:
        The name of the signal that killed it, or its exit code.
    """
    for line in reversed(log.splitlines()):
        found = _read(line)
        if found is not None and found[0] == pid:
            return found[1:]
    return None


def _read(line: str) -> tuple[int, str | None, int | None] | None:
    if said := _SENTENCE.fullmatch(line):
        return int(said[1]), said[2], int(said[3]) if said[3] else None
    if _ENDED not in line:
        return None
    try:
        found = json.loads(line)
        return (found["pid"], found["signal"], found["code"]) if found["stateward"] == _ENDED else None
    except (ValueError, KeyError, TypeError):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
