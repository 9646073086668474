"""STANDS IN for the JVM of `spark-submit`: listens as its gateway does, and starts Python as its child."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from subprocess import PIPE, Popen


def start(*python: str, stdin: int | None = None) -> Popen[str]:
    """Start a stand-in whose child runs Python with these arguments; its output is a pipe."""
    command = [sys.executable, "-m", "tests.support.spark.stand_in_jvm", *python]
    return Popen(command, stdin=stdin, stdout=PIPE, text=True)


def main(arguments: list[str]) -> int:
    with socket.create_server(("127.0.0.1", 0)) as gateway:
        env = {**os.environ, "PYSPARK_GATEWAY_PORT": str(gateway.getsockname()[1])}
        return subprocess.call([sys.executable, *arguments], env=env)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
