"""A project of Docker Compose from this checkout, driven by its command line as a person would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stateward.cli.streams.airflow_api import AirflowApi
from stateward.project.settings import CHECKOUT
from tests.support.waiting import PATIENCE_S, wait_until

BUILD_ARGUMENTS = "COMPOSE_BUILD_ARGUMENTS"
"""Variable with what a build needs on this machine, such as `HTTPS_PROXY=... PIP_INDEX_URL=...`."""

_ROWS = """
import json, sys
from deltalake import DeltaTable
from stateward.airflow.storage_connection import use_storage_in_command
from stateward.project.layout import Layout
from stateward.project.settings import Settings
use_storage_in_command(Settings())
uri, columns = Layout.of(Settings()).table_uri(sys.argv[1]), sys.argv[2].split(",")
there = DeltaTable.is_deltatable(uri)
print(json.dumps(DeltaTable(uri).to_pyarrow_table(columns=columns).to_pylist() if there else []))
"""
_HOLDINGS = """
import json
from stateward.airflow.storage_connection import use_storage_in_command
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.contract.lease import read_holdings
use_storage_in_command(Settings())
uri = Layout.of(Settings()).lease_uri("{stream}")
print(json.dumps([(one.epoch, one.end) for one in read_holdings(uri)]))
"""


@dataclass(frozen=True)
class Project:
    """One copy of the project, whose containers have a name and ports of their own."""

    folder: Path
    name: str
    ui_port: int
    kafka_port: int

    def configure(self, **more: str) -> None:
        """Write `.env`: what has to be filled in, and `more`."""
        values = {
            "POSTGRES_PASSWORD": "database",
            "AIRFLOW_ADMIN_PASSWORD": "admin",
            "AIRFLOW_JWT_SECRET": "j" * 48,
            "AIRFLOW_SESSION_KEY": "s" * 48,
            "AIRFLOW_FERNET_KEY": urlsafe_b64encode(bytes(32)).decode(),
            "UI_PORT": str(self.ui_port),
            "KAFKA_PORT": str(self.kafka_port),
            **more,
        }
        (self.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    def run(self, *arguments: str, timeout_s: float = 900) -> subprocess.CompletedProcess[str]:
        """Run `docker compose` and return what it said, whatever its exit code."""
        named = {line.split("=", 1)[0] for line in (self.folder / ".env").read_text().splitlines()}
        return subprocess.run(
            ["docker", "compose", "--project-name", self.name, *arguments],
            cwd=self.folder,
            # A variable of this shell would win over the file.
            env={name: value for name, value in os.environ.items() if name not in named},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def must(self, *arguments: str, timeout_s: float = 900) -> str:
        """Run `docker compose`, expect exit code 0, and return its standard output."""
        run = self.run(*arguments, timeout_s=timeout_s)
        said = f"{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
        assert run.returncode == 0, f"docker compose {' '.join(arguments)}: {run.returncode}\n{said}"
        return run.stdout

    def build(self) -> None:
        """Build the image; what it needs on this machine comes from the environment."""
        given = os.environ.get(BUILD_ARGUMENTS, "").split()
        self.must("build", *(word for one in given for word in ("--build-arg", one)), timeout_s=3600)

    def up(self) -> None:
        """Start what is not running, and wait until every service is healthy."""
        self.must("up", "--wait", "--no-build", timeout_s=1200)

    def stateward(self, *arguments: str, timeout_s: float = 900) -> str:
        """Run `stateward` in the worker's container."""
        return self.must("exec", "-T", "worker", "stateward", *arguments, timeout_s=timeout_s)

    def python(self, code: str, *arguments: str) -> Any:
        """Run Python code in the worker's container, and return the JSON that it prints."""
        said = self.must("exec", "-T", "worker", "python", "-c", code, *arguments)
        return json.loads(said.strip().splitlines()[-1])

    def rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """Return all rows of a table; none while there is no table."""
        found: list[dict[str, Any]] = self.python(_ROWS, table, ",".join(columns))
        return found

    def holdings(self, stream: str) -> list[tuple[int, str]]:
        """Return the epoch of each holding of a stream's lease and how it ended, the oldest first."""
        return [(epoch, end) for epoch, end in self.python(_HOLDINGS.format(stream=stream))]

    def sessions_of(self, prefix: str) -> tuple[int, int]:
        """Return how many sessions the users with `prefix` have, and how many events lie in them."""
        rows = self.rows("sessions", "user_id", "session_id", "event_count")
        mine = [row for row in rows if row["user_id"].startswith(prefix)]
        assert len({row["session_id"] for row in mine}) == len(mine), "a session was written twice"
        return len(mine), sum(row["event_count"] for row in mine)

    def validations(self, stream: str) -> list[dict[str, Any]]:
        """Return what validations of a stream's tables have found."""
        rows = self.rows("quality_validations", "stream", "table_rows", "failed", "passed")
        return [row for row in rows if row["stream"] == stream]

    def status(self) -> dict[str, Any]:
        """Return what `stateward status --json` says."""
        document: dict[str, Any] = json.loads(self.stateward("status", "--json"))
        return document

    def stream(self, name: str) -> dict[str, Any]:
        """Return what `stateward status --json` says of one stream."""
        return next(one for one in self.status()["streams"] if one["stream"] == name)

    def airflow(self) -> AirflowApi:
        """Return a client of Airflow's API with a fresh token."""
        return AirflowApi(f"http://localhost:{self.ui_port}", "admin", "admin")

    def trigger(self, stream: str, action: str) -> None:
        """Trigger a stream's DAG with an action."""
        dag = f"stream_{stream}"
        with self.airflow() as api:
            wait_until(lambda: api.has_dag(dag), PATIENCE_S, f"the DAG {dag} is parsed", poll_s=1)
            api.unpause(dag)
            api.trigger(dag, {"action": action})

    def wait_for(self, stream: str, timeout_s: float, **wanted: Any) -> dict[str, Any]:
        """Wait until `status` says of a stream what is wanted, and return all that it says."""
        seen: dict[str, Any] = {}

        def as_wanted() -> bool:
            seen.update(self.stream(stream))
            return all(seen[name] == value for name, value in wanted.items())

        wait_until(as_wanted, timeout_s, lambda: f"{stream} is {wanted}; found {seen}", poll_s=1)
        return seen

    def log(self, service: str) -> str:
        """Return the end of a service's log, for a message."""
        return self.run("logs", "--tail", "60", service).stdout[-6000:]


def copied_to(folder: Path) -> Path:
    """Copy what the image is built from, and the files of Compose, so that a test may edit them."""
    names = [line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line[:1] == "!"]
    for name in (*names, "Dockerfile", ".dockerignore", "docker-compose.yaml"):
        source, target = CHECKOUT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return folder
