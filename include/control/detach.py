"""Start a command that outlives whoever asked for it, and print its process id.

Run as a script by `launch`. A direct child of an Airflow task would stay behind as a zombie, be
killed with the task's process group, and hold the task's pipes open. This process starts the
command in a session of its own and ends at once, so that init adopts it.
"""

import signal
import subprocess
import sys
from pathlib import Path


def main(log: str, command: list[str]) -> None:
    """Start `command` with its output appended to the file `log`, and print its process id."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A signal that the task ignores would be ignored by the driver too.
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with Path(log).open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    sys.stdout.write(f"{process.pid}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
