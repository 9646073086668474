"""An installation of Stateward in a folder of its own, driven by its command line as a person would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stateward.cli.streams.airflow_api import AirflowApi
from stateward.platform.parts.ports import free_ports
from stateward.platform.processes import ManagedProcess, find_owned
from stateward.platform.secrets import ADMIN, Secrets
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.support.waiting import PATIENCE_S, wait_until

STATEWARD = str(Path(sys.executable).parent / "stateward")
PORTS = (
    "kafka_port",
    "kafka_controller_port",
    "airflow_port",
    "airflow_worker_log_port",
    "airflow_triggerer_log_port",
)


@dataclass(frozen=True)
class Installation:
    """One STATEWARD_HOME on free ports, run by the command `stateward` at a path."""

    settings: Settings
    command: str = field(default=STATEWARD, kw_only=True)

    @classmethod
    def in_folder(cls, home: Path, *, command: str = STATEWARD, **overrides: Any) -> Installation:
        """Describe an installation; nothing is started."""
        ports: dict[str, Any] = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        values = ports | {"start_timeout_s": 2 * PATIENCE_S} | overrides
        return cls(
            Settings(
                home=home,
                data=f"file://{home}/data",
                kafka_bootstrap=f"localhost:{values['kafka_port']}",
                airflow_url=f"http://localhost:{values['airflow_port']}",
                **values,
            ),
            command=command,
        )

    @property
    def layout(self) -> Layout:
        return Layout.of(self.settings)

    @property
    def password(self) -> str:
        """Password of the user `admin`."""
        return Secrets.load_or_create(self.layout.airflow_home).admin_password

    def airflow(self) -> AirflowApi:
        """Return a client of Airflow's API with a fresh token."""
        return AirflowApi(self.settings.airflow_url, ADMIN, self.password)

    @property
    def environment(self) -> dict[str, str]:
        """Environment of commands for this installation."""
        return {**os.environ, **self.settings.environment()}

    def run(self, *arguments: str, timeout_s: float = 3 * PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run `stateward` and return what it said, whatever its exit code."""
        return subprocess.run(
            [self.command, *arguments],
            cwd=self.settings.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def must_run(self, *arguments: str, timeout_s: float = 3 * PATIENCE_S) -> str:
        """Run `stateward`, expect exit code 0, and return its standard output."""
        run = self.run(*arguments, timeout_s=timeout_s)
        assert run.returncode == 0, (
            f"stateward {' '.join(arguments)}: {run.returncode}\n{run.stdout}\n{run.stderr}"
        )
        return run.stdout

    def status(self) -> dict[str, Any]:
        """Return what `stateward status --json` says."""
        document: dict[str, Any] = json.loads(self.must_run("status", "--json"))
        return document

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return the parts of `status`, by name."""
        return {part["name"]: part for part in self.status()["parts"]}

    def pids(self) -> dict[str, int | None]:
        """Return the process id of each part."""
        return {name: part["pid"] for name, part in self.parts().items()}

    def processes(self) -> list[ManagedProcess]:
        """Return every process of this installation."""
        return find_owned(self.settings.home)

    def wait_ready(self, timeout_s: float = PATIENCE_S) -> dict[str, dict[str, Any]]:
        """Wait until every part answers, and return the parts."""
        seen: dict[str, Any] = {}

        def ready() -> bool:
            seen.update(self.parts())
            return all(part["state"] == "ready" for part in seen.values())

        wait_until(ready, timeout_s, lambda: f"every part is ready; found {seen}", poll_s=1)
        return seen
