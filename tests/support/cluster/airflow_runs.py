"""Airflow's tasks and triggers on one host, without its services: each run of a DAG is a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.fernet import Fernet

from tests.support.cluster.hosts import PYTHON, Host
from tests.support.waiting import PATIENCE_S

_RUN = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
dag = DagBag(sys.argv[1], safe_mode=True).dags[sys.argv[2]]
run = dag.test(run_conf=json.loads(sys.argv[3]))
for task in run.get_task_instances():
    print("RESULT", task.task_id, task.state)
"""

_CARRY_OUT = """
import pathlib, sys, threading
from tests.support.control.airflow_runs import carry_out_triggered
while not threading.Event().wait(1):
    carry_out_triggered(pathlib.Path(sys.argv[1]))
"""


@dataclass
class AirflowRuns:
    """A metadata database of its own, and the runs that were started with it.

    Attributes:
        project: The folder of the project; the database, and a log for each run, are below it.
        settings: What the tasks have in their environment: Stateward's settings, and connections.
        host: Where the runs are, with the project in its own folder; this machine without it.
    """

    project: Path
    settings: Mapping[str, str]
    host: Host | None = None
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.project / "airflow"
        self.folder.mkdir()
        self._key = Fernet.generate_key().decode()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of Airflow's commands."""
        inherited = os.environ if self.host is None else self.host.environment({})
        project = self.project if self.host is None else self.host.as_seen(self.project)
        folder = project / self.folder.name
        connect = "stateward.platform.parts.airflow.SQLITE_CONNECT_ARGS"
        return {
            # Keys of a storage come from a connection.
            **{name: value for name, value in inherited.items() if not name.startswith("AWS_")},
            **self.settings,
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__FERNET_KEY": self._key,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": connect,
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{folder}/logs",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }

    def migrate(self) -> subprocess.Popen[bytes]:
        """Begin to make the database."""
        return self._start("migrate", "-m", "airflow", "db", "migrate")

    def store_dags(self) -> None:
        """Store the DAGs as they are now: of two runs that both find them changed, one would fail."""
        self.wait(self._start("dags", "-m", "airflow", "dags", "reserialize"))

    def carry_out(self) -> None:
        """Carry out runs of `state_operations` that other runs trigger, as a scheduler does."""
        dags = self.environment["AIRFLOW__CORE__DAGS_FOLDER"]
        self._start("triggered", "-c", _CARRY_OUT, f"{dags}/streams.py")

    def start(self, dag: str, conf: str = "{}") -> subprocess.Popen[bytes]:
        """Start a run of a DAG: its real tasks and triggers, in one process.

        Args:
            dag: Its id.
            conf: The form of the run, as JSON.
        """
        dags = self.environment["AIRFLOW__CORE__DAGS_FOLDER"]
        return self._start(dag, "-c", _RUN, f"{dags}/streams.py", dag, conf)

    def wait(self, run: subprocess.Popen[bytes], timeout_s: float = PATIENCE_S) -> dict[str, str]:
        """Wait for the end of a run, and return the state of each task."""
        try:
            code = run.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not within {timeout_s:g} s: {self.said(run)[-6000:]}") from None
        assert code == 0, self.said(run)[-6000:]
        lines = [line.split() for line in self.said(run).splitlines() if line.startswith("RESULT")]
        return {task: state for _, task, state in lines if (task, state) != ("upgrade", "skipped")}

    def said(self, run: subprocess.Popen[bytes]) -> str:
        """Return what a run has printed so far."""
        return self._log(self.runs.index(run)).read_text(errors="replace")

    def kill(self) -> None:
        """End the runs that are left; what they have launched goes on."""
        for run in self.runs:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()

    def _log(self, number: int) -> Path:
        [log] = self.folder.glob(f"{number}-*.log")
        return log

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        python = [sys.executable] if self.host is None else self.host.command(PYTHON / "bin" / "python")
        with (self.folder / f"{len(self.runs)}-{name}.log").open("wb") as log:
            self.runs.append(
                subprocess.Popen(
                    [*python, *arguments],
                    env=self.environment,
                    cwd=self.project,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        return self.runs[-1]
