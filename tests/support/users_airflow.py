"""An Airflow as a user has one: `airflow standalone` of a fresh virtual environment, not the embedded one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stateward.cli.streams.airflow_api import AirflowApi, AirflowApiError
from stateward.platform.parts.ports import free_ports
from tests.support.airflow_server import end_group
from tests.support.fresh_machine import Machine
from tests.support.waiting import PATIENCE_S, wait_until

USER, PASSWORD = "ann", "ann's password"


@dataclass
class UsersAirflow:
    """One Airflow with its defaults, except for free ports, a known login and a quicker parser."""

    machine: Machine
    ports: list[int] = field(default_factory=lambda: free_ports(3))
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://localhost:{self.ports[0]}"

    @property
    def log(self) -> Path:
        return self.machine.folder / "standalone.log"

    @property
    def environment(self) -> dict[str, str]:
        """What a person has set in the shell that starts it, and in the one that calls commands."""
        api, worker_logs, trigger_logs = map(str, self.ports)
        return {
            **self.machine.environment,
            "AIRFLOW__API__PORT": api,
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "15",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
            # A busy machine answers the tasks late.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": worker_logs,
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": trigger_logs,
            "STATEWARD_AIRFLOW_URL": self.url,
            "STATEWARD_AIRFLOW_USER": USER,
            "STATEWARD_AIRFLOW_PASSWORD": PASSWORD,
        }

    @property
    def _passwords(self) -> Path:
        return self.machine.folder / "passwords.json"

    def command(self, *arguments: str, cwd: Path | None = None, code: int = 0) -> str:
        """Run a command of the environment in the project, and return what it said; it has to exit so."""
        where = cwd or self.machine.project
        done = subprocess.run(
            [*self.machine.entered(where), self.machine.python.parent / arguments[0], *arguments[1:]],
            cwd=where,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE_S,
            check=False,
        )
        said = f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{said}"
        return done.stdout

    def connect(self, conn_id: str, **connection: Any) -> None:
        """Add a connection to its metadata database, as a person does."""
        self.command("airflow", "connections", "add", conn_id, "--conn-json", json.dumps(connection))

    def start(self) -> None:
        """Start it in a process group of its own, and wait until it answers."""
        self._passwords.write_text(json.dumps({USER: PASSWORD}))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *self.machine.entered(self.machine.folder),
                    *(self.machine.python.parent / "airflow", "standalone"),
                ],
                cwd=self.machine.folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(
            self._answers, PATIENCE_S, lambda: f"Airflow answers; its log ends: {self.tail()}", poll_s=1
        )

    def stop(self) -> None:
        """End all of its processes; drivers have sessions of their own."""
        if self.process is not None:
            end_group(self.process)

    def api(self) -> AirflowApi:
        """Return a client with a fresh token."""
        return AirflowApi(self.url, USER, PASSWORD)

    def unpause(self, dag_id: str) -> None:
        """Wait until a DAG is parsed, and let it run: DAGs are paused on creation."""
        with self.api() as api:
            wait_until(
                lambda: api.has_dag(dag_id), PATIENCE_S, lambda: f"{dag_id}: {api.import_errors()}", poll_s=1
            )
            api.unpause(dag_id)

    def tail(self) -> str:
        """Return the end of what it said."""
        return self.log.read_text(errors="replace")[-4000:]

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self.tail()
        try:
            with self.api():
                return True
        except AirflowApiError:
            return False
