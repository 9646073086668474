"""A stream as its operator sees it: its status, its tables, its processes, and the DAG that runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable

from stateward.cli.streams.airflow_api import AirflowApi
from stateward.contract.storage import read_json
from stateward.project.layout import Layout
from tests.support.control.installation import Installation
from tests.support.waiting import PATIENCE_S, wait_until

BALANCE = ("accepted", "dead", "late", "duplicates")


@dataclass
class LiveStream:
    """The stream `name` of one installation."""

    name: str
    installation: Installation

    @property
    def layout(self) -> Layout:
        """Where its documents and tables lie."""
        return self.installation.layout

    def airflow(self) -> AirflowApi:
        """Return a client of Airflow's API with a fresh token."""
        return self.installation.airflow()

    @property
    def dag(self) -> str:
        """The DAG that deploys and supervises it."""
        return f"stream_{self.name}"

    def status(self) -> dict[str, Any]:
        """Return what the driver last said, or nothing."""
        return read_json(self.layout.status_uri(self.name)) or {}

    def control(self) -> dict[str, Any]:
        """Return what should be, as the control plane has written it, or nothing."""
        return read_json(self.layout.control_uri(self.name)) or {}

    def is_running(self) -> bool:
        """Whether a driver says it runs, and its process is there."""
        status = self.status()
        return status.get("state") == "running" and psutil.pid_exists(status["pid"])

    def counted(self) -> int:
        """Return how many records have been read and committed."""
        return int(self.status().get("delivered") or 0)

    def trigger(self, action: str) -> str:
        """Trigger its DAG with an action and return the id of the run."""
        with self.airflow() as api:
            wait_until(lambda: api.has_dag(self.dag), PATIENCE_S, f"DAG {self.dag} is parsed", poll_s=1)
            api.unpause(self.dag)
            return api.trigger(self.dag, {"action": action})

    def run_state(self, run: str) -> str:
        """Return the state of a run of its DAG."""
        with self.airflow() as api:
            return api.run_state(self.dag, run)

    def wait_running(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until its driver runs."""
        wait_until(self.is_running, timeout_s, lambda: f"{self.name} runs; found {self.describe()}")

    def ensure_running(self) -> None:
        """Start its driver if none runs, and wait until it does."""
        if not self.is_running():
            self.trigger("run")
            self.wait_running()

    def replay(self, file: Path, *options: str) -> subprocess.Popen[bytes]:
        """Start `stateward replay` of a file into the stream's topic."""
        return subprocess.Popen(
            [self.installation.command, "replay", str(file), "--topic", "user_events", *options],
            env=self.installation.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def sessions_of(self, prefix: str) -> tuple[int, int]:
        """Return how many sessions the users with `prefix` have, and how many events lie in them."""
        rows = self.rows("sessions", ["user_id", "session_id", "event_count"])
        mine = [row for row in rows if row["user_id"].startswith(f"{prefix}-")]
        assert len({row["session_id"] for row in mine}) == len(mine), "a session was written twice"
        return len(mine), sum(row["event_count"] for row in mine)

    def rows(self, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows of one of its tables; none while there is no table."""
        uri = self.layout.table_uri(table)
        if not DeltaTable.is_deltatable(uri):
            return []
        found: list[dict[str, Any]] = DeltaTable(uri).to_pyarrow_table(columns=list(columns)).to_pylist()
        return found

    def balance(self) -> tuple[int, int]:
        """Return what was delivered by Kafka's offsets, and the sum of what became of it."""
        status = self.status()
        return status["delivered"], sum(status[name] for name in BALANCE)

    def drivers(self) -> list[psutil.Process]:
        """Return the JVMs that run this stream's job for this installation."""
        config = self.layout.config_uri(self.name)
        return [p for p in _processes("java") if config in " ".join(_command_line(p))]

    def python_workers(self) -> list[psutil.Process]:
        """Return the Python processes below the driver's JVM that execute tasks."""
        return [
            process
            for driver in self.drivers()
            for process in driver.children(recursive=True)
            if "pyspark" in " ".join(_command_line(process))
            and "driver.py" not in " ".join(_command_line(process))
        ]

    def describe(self) -> str:
        """Say what an assertion's reader needs."""
        logs = sorted(self.layout.driver_log_dir(self.name).glob("*.log"))
        tail = logs[-1].read_text(errors="replace")[-2000:] if logs else "(no driver log)"
        return f"status {self.status()}; drivers {self.drivers()}; log ends: {tail}"


def _processes(name: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["name"]) if process.info["name"] == name]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
