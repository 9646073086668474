"""A standalone cluster of this machine: a master, a worker, and an application that holds its cores."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.waiting import PATIENCE_S, wait_until

SPARK_HOME = Path(sys.executable).parents[1] / "lib" / "python3.11" / "site-packages" / "pyspark"
_HOLD = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.appName("occupier").getOrCreate()
spark.range(1).count()
print("holds", flush=True)
sys.stdin.read()
"""
_HOST = "127.0.0.1"


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


@dataclass
class Standalone:
    """The processes of one cluster, whose logs are in a folder."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.port, self.page_port = _free_ports(2)

    @property
    def master(self) -> str:
        return f"spark://{_HOST}:{self.port}"

    @property
    def conf(self) -> dict[str, str]:
        """What an application of one small executor needs."""
        return {
            "spark.cores.max": "1",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.master.ui.port": str(self.page_port),
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
        }

    def start_master(self) -> None:
        """Start the master, and wait until its page answers."""
        ports = ("--port", str(self.port), "--webui-port", str(self.page_port))
        self._daemon("master", "org.apache.spark.deploy.master.Master", "--host", _HOST, *ports)
        wait_until(self._answers, PATIENCE_S, lambda: self.log("master"))

    def start_worker(self, cores: int) -> None:
        """Start a worker."""
        room = ("--cores", str(cores), "--memory", "2g", "--webui-port", "0")
        work = ("--work-dir", str(self.folder / "work"))
        self._daemon(
            "worker", "org.apache.spark.deploy.worker.Worker", "--host", _HOST, *room, *work, self.master
        )

    def occupy(self) -> subprocess.Popen[bytes]:
        """Start an application that has an executor, and keeps it until it is killed."""
        script = self.folder / "hold.py"
        script.write_text(_HOLD)
        conf = {**self.conf, "spark.ui.enabled": "false"}
        given = [part for one in conf.items() for part in ("--conf", "=".join(one))]
        submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master, *given, str(script)]
        process = self._start("occupier", submit, stdin=subprocess.PIPE)
        wait_until(lambda: "holds" in self.log("occupier"), PATIENCE_S, lambda: self.log("occupier")[-3000:])
        return process

    def log(self, name: str) -> str:
        file = self.folder / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL to a process and its children."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes.remove(process)

    def kill_all(self) -> None:
        """SIGKILL to everything; executors leave with their worker."""
        for process in [*self.processes]:
            self.kill(process)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{self.page_port}/json/", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _daemon(self, name: str, *arguments: str) -> None:
        self._start(name, [str(SPARK_HOME / "bin" / "spark-class"), *arguments])

    def _start(
        self, name: str, command: list[str], stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process
