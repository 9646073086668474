"""An installation on one host whose streams run on a cluster and keep everything on its storage."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml
from deltalake import DeltaTable

from stateward.contract.storage import read_json
from stateward.control.launchers import processes
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import load_spec
from tests.support.cluster.airflow_runs import AirflowRuns
from tests.support.cluster.hosts import PYTHON, Host
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch, stream
from tests.support.waiting import PATIENCE_S, wait_until

_JVM = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_NOT_INSTALLED = ("stateward", "jars/spark")
"""What a host without the checkout needs besides its Python environment."""

SMALL: dict[str, Any] = {"driver_memory": "768m", "executor_memory": "512m", "conf": _JVM}
"""What an application takes: little, so that several of them have room on two cores."""


@dataclass
class ClusterInstallation:
    """One installation.

    Attributes:
        folder: Its folder, as this machine sees it.
        data: The URI of its data.
        master: Where Spark runs.
        address: By which the cluster's hosts reach its host.
        broker: The broker that its streams read.
        more: Variables of the environment of its processes.
        jars: The folder of its JARs.
        host: Where its processes are, with its folder in the host's own; this machine without it.
    """

    folder: Path
    data: str
    master: str
    address: str
    broker: RunningBroker
    more: Mapping[str, str] = field(default_factory=dict)
    jars: Path = CHECKOUT / "jars"
    host: Host | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir()
        for part in ("dags", "spark_jobs", "include", *(() if self.host is None else _NOT_INSTALLED)):
            ignored = shutil.ignore_patterns("streams", "__pycache__") if part == "include" else None
            shutil.copytree(CHECKOUT / part, self.folder / part, ignore=ignored)
        self.settings.streams.mkdir()
        (self.folder / "include" / "batch_jobs.yaml").write_text(yaml.safe_dump({"defaults": SMALL}))
        self.airflow = AirflowRuns(self.folder, self.environment, self.host)

    @property
    def settings(self) -> Settings:
        """Its settings on this machine."""
        return self._settings(self.folder, self.jars)

    def _settings(self, folder: Path, jars: Path) -> Settings:
        return Settings(
            project=folder,
            home=folder / "home",
            data=self.data,
            jars=jars,
            kafka_bootstrap=self.broker.bootstrap,
            create_topics_at=self.broker.bootstrap,
            executor_python=f"host:{PYTHON}",
        )

    @property
    def layout(self) -> Layout:
        """Where everything lies."""
        return Layout.of(self.settings)

    @property
    def environment(self) -> dict[str, str]:
        """What its processes have in their environment."""
        connection = {"conn_type": "spark", "host": self.master}
        settings, code = self.settings, CHECKOUT
        if self.host is not None:
            code = self.host.as_seen(self.folder)
            settings = self._settings(code, code / "jars")
        return {
            **settings.environment(),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
            "SPARK_LOCAL_IP": self.address,
            "PYTHONPATH": str(code),
            **self.more,
        }

    def add(self, name: str, **fields: Any) -> ClusterStream:
        """Add a stream as it is shipped, but with topics of its own.

        Args:
            name: The stream.
            fields: Fields of its YAML, in place of the shipped ones.
        """
        document = yaml.safe_load((CHECKOUT / "include" / "streams" / f"{name}.yaml").read_text())
        # Those of tests and of hosts with the same data read the same.
        topic = "-".join([*self.data.split("/")[-2:], name])
        document |= {
            "spark": SMALL,
            "restart": {"backoff": "1s"},
            "event_time": {"allowed_lateness": "2m"},
            "source": {"topic": topic, "max_records_per_batch": 1000},
            **fields,
        }
        file = self.settings.streams / f"{name}.yaml"
        file.write_text(yaml.safe_dump(document))
        return ClusterStream(self.folder, self.broker, topic, stream=stream(name), installation=self)

    def close(self) -> None:
        """End everything that it has started."""
        self.airflow.kill()
        for file in self.settings.streams.glob("*.yaml"):
            processes.kill(processes.find_by_env(self.settings.home, file.stem), 10)


@dataclass
class ClusterStream(Launch):
    """A stream of an installation, with what it has been sent and what it has written."""

    installation: ClusterInstallation = field(kw_only=True)
    _supervised: Any = None

    @property
    def name(self) -> str:
        """The stream."""
        return self.stream.name

    def uri(self, *parts: str) -> str:
        """Return a URI below the data; the checkpoint's is that of the stream."""
        place = [self.name if part == "checkpoint" else part for part in parts]
        root = "checkpoints" if parts == ("checkpoint",) else ""
        return "/".join(filter(None, (self.installation.data, root, *place)))

    def document(self, run_id: str = "run-1", **changes: Any) -> dict[str, Any]:
        """Return the configuration of its drivers."""
        settings = self.installation.settings
        return {**resolved_configuration(load_spec(self.name, settings.streams), settings, run_id), **changes}

    def status(self) -> dict[str, Any]:
        """Return what its driver last said."""
        return read_json(self.installation.layout.status_uri(self.name)) or {}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return what it has written to a table, which may be shared with other streams."""
        uri = self.installation.layout.table_uri(table)
        shared = table not in self.stream.tables
        filters = [("stream", "=", self.name)] if shared else None
        found: list[dict[str, Any]] = DeltaTable(uri).to_pyarrow_table(filters=filters).to_pylist()
        return found

    def run(self) -> None:
        """Start a run of its DAG, which deploys and supervises it, and wait until it runs."""
        airflow = self.installation.airflow
        self._supervised = airflow.start(f"stream_{self.name}", '{"action": "run"}')
        self.wait("it runs", lambda status: status.get("state") == "running")

    def stop(self) -> None:
        """Drain it by another run of its DAG."""
        airflow = self.installation.airflow
        stopped = airflow.wait(airflow.start(f"stream_{self.name}", '{"action": "stop"}'))
        assert stopped["deploy"] == "success", stopped
        assert airflow.wait(self._supervised)["supervise"] == "success"
        assert self.status()["state"] == "stopped"

    def leave(self) -> subprocess.Popen[bytes]:
        """SIGKILL to its supervision, and to all that this has started on this machine."""
        run: subprocess.Popen[bytes] = self._supervised
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        return run

    def begin(self, verb: str, **fields: Any) -> subprocess.Popen[bytes]:
        """Start a run of a state operation."""
        conf = {"verb": verb, "stream": self.name, "watch_s": 60, **fields}
        return self.installation.airflow.start("state_operations", json.dumps(conf))

    def operate(self, verb: str, **fields: Any) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
        """Run a state operation to its end, and return its run and the states of its tasks."""
        run = self.begin(verb, **fields)
        return run, self.installation.airflow.wait(run, 900)

    def wait(
        self,
        what: str,
        reached: Callable[[dict[str, Any]], bool],
        timeout_s: float = PATIENCE_S,
    ) -> dict[str, Any]:
        """Wait for a status of it."""

        def look() -> dict[str, Any] | None:
            run = self._supervised
            assert run is None or run.poll() is None, self.installation.airflow.said(run)[-6000:]
            status = self.status()
            return status if status and reached(status) else None

        return wait_until(look, timeout_s, lambda: f"{what}: {self.status()} {self.driver_log()[-3000:]}")

    def delivered(self, count: int) -> None:
        """Wait until so many records have been read and committed."""
        self.wait(f"{count} are delivered", lambda status: (status.get("delivered") or 0) >= count)

    def kill_driver(self) -> None:
        """SIGKILL to its JVM and its Python, and wait until the supervision has started another one."""
        before = self.status()
        for pid in (before["pid"], before["python_pid"]):
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)
        self.wait(
            "another driver runs",
            lambda now: now["run_id"] != before["run_id"] and now["state"] == "running",
        )

    def driver_log(self) -> str:
        """Return the log of its last driver."""
        logs: Sequence[Path] = sorted(self.installation.layout.driver_log_dir(self.name).glob("*.log"))
        return logs[-1].read_text(errors="replace") if logs else "(no log)"
