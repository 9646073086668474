"""Airflow as the official Helm chart installs it, with the values that the documentation gives."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.kubernetes import RIGHTS, Kubernetes
from tests.support.waiting import wait_until

CHART = "AIRFLOW_CHART"
"""Variable with the chart: a folder, or what Helm can pull."""

IMAGE = "AIRFLOW_IMAGE"
"""Variable with the image of Airflow, which the cluster's nodes have or can pull."""

VALUES = RIGHTS.with_name("airflow-values.yaml")
STREAMS = "stateward-streams"
"""The ConfigMap of the streams."""

_RELEASE = "airflow"
_VOLUME = "stateward-airflow-logs"
_SCHEDULER = (f"{_RELEASE}-scheduler-0", "-c", "scheduler")
_ENDED = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})


def why_no_chart() -> str | None:
    """Say what is missing for the chart; None if everything is there."""
    if CHART not in os.environ or IMAGE not in os.environ:
        return f"these need the chart of Airflow, named by {CHART}, and the image of Airflow, by {IMAGE}"
    return None if shutil.which("helm") else "these need helm"


@dataclass(frozen=True)
class AirflowChart:
    """A release of the chart.

    Attributes:
        kubernetes: Where it is installed.
    """

    kubernetes: Kubernetes

    def install(self, own: Path, streams: Path) -> None:
        """Install it, and wait until it is ready.

        Args:
            own: Values beside those of the documentation.
            streams: A folder of YAMLs, which become the ConfigMap `STREAMS`.
        """
        self.kubernetes("create", "configmap", STREAMS, f"--from-file={streams}")
        values = ("--values", str(VALUES), "--values", str(own))
        self._helm("upgrade", "--install", _RELEASE, os.environ[CHART], *values, "--wait", "--timeout", "15m")

    def offer_volume(self, folder: Path) -> None:
        """Offer a folder of this machine for the logs, where the cluster provides no volumes by itself."""
        if self.kubernetes("get", "storageclasses", "-o", "name").strip():
            return
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        spec = {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(folder)},
        }
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": _VOLUME}, "spec": spec}
        file = folder.with_suffix(".json")
        file.write_text(json.dumps(volume))
        self.kubernetes("apply", "-f", file)

    def uninstall(self) -> None:
        """Remove it, and its volume."""
        self._helm("uninstall", _RELEASE, "--ignore-not-found", "--wait")
        self.kubernetes("delete", "pvc", f"logs-{_RELEASE}-scheduler-0", "--ignore-not-found")
        self.kubernetes("delete", "configmap", STREAMS, "--ignore-not-found")
        self.kubernetes("delete", "pv", _VOLUME, "--ignore-not-found")

    def start(self, dag: str, conf: dict[str, object]) -> str:
        """Start a run of a DAG, and return its id."""
        answer = self._airflow("dags", "trigger", dag, "--conf", json.dumps(conf), "--output", "json")
        run_id: str = _last_line(answer)[0]["dag_run_id"]
        return run_id

    def wait(self, dag: str, run_id: str, timeout_s: float) -> dict[str, str]:
        """Wait until all tasks of a run have ended, and return their states."""

        def ended() -> dict[str, str] | None:
            states = self.states(dag, run_id)
            return states if states and set(states.values()) <= _ENDED else None

        return wait_until(
            ended, timeout_s, lambda: f"{dag}: {self.states(dag, run_id)}\n{self.said()}", poll_s=5
        )

    def states(self, dag: str, run_id: str) -> dict[str, str]:
        """Return the states of a run's tasks; none while the scheduler's pod is starting."""
        arguments = ("tasks", "states-for-dag-run", dag, run_id, "--output", "json")
        answer = self._airflow(*arguments, must=False)
        return {one["task_id"]: one["state"] for one in _last_line(answer or "[]")}

    def said(self) -> str:
        """Return the pods, and the ends of their logs, for a message."""
        logs = self.kubernetes("logs", "-l", f"release={_RELEASE}", "--tail", 40, must=False)
        return self.kubernetes("get", "pods", "-o", "wide", must=False) + logs[-12000:]

    def _airflow(self, *arguments: str, must: bool = True) -> str:
        return self.kubernetes("exec", *_SCHEDULER, "--", "airflow", *arguments, must=must)

    def _helm(self, *arguments: str) -> None:
        done = subprocess.run(
            ["helm", "--namespace", self.kubernetes.namespace, *arguments],
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == 0, f"helm {arguments}: {done.stdout}{done.stderr}\n{self.said()}"


def _last_line(answer: str) -> list[dict[str, str]]:
    """What a command of Airflow answers, below what it logs."""
    found: list[dict[str, str]] = json.loads(answer.rstrip().rsplit("\n", 1)[-1])
    return found
