"""A real Airflow with a metadata database of its own, and a stand-in for `spark-submit`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cryptography.fernet import Fernet

if TYPE_CHECKING:
    from stateward.project.layout import Layout

# Airflow reads its home when it is first imported, which test modules do while they are collected.
_HOME = tempfile.TemporaryDirectory(prefix="stateward-airflow-")
ROOT = Path(__file__).resolve().parents[2]
os.environ.update(
    AIRFLOW_HOME=_HOME.name,
    # Without one, each process makes up its own and cannot read what another has stored.
    AIRFLOW__CORE__FERNET_KEY=Fernet.generate_key().decode(),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{_HOME.name}/airflow.db",
    # Runs in several processes share the file; a locked one is waited for.
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS="stateward.platform.parts.airflow.SQLITE_CONNECT_ARGS",
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=f"{_HOME.name}/logs",
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
)

STREAM = "user_sessions"


@pytest.fixture(scope="session")
def metadata_database() -> Path:
    """Airflow's metadata database with the shipped DAGs, as its DAG processor would leave it."""
    from tests.support.control.started import mark_started

    # dag.test() stores DAGs that it finds missing, which two runs at once may not do.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("STATEWARD_HOME", f"{_HOME.name}/stateward")
        mark_started()
        environ = dict(os.environ)
    for command in (["db", "migrate"], ["dags", "reserialize"]):
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *command],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return Path(_HOME.name) / "airflow.db"


@dataclass
class Platform:
    """One installation whose driver is the stand-in, and the DAG runs started in it."""

    home: Path
    environment: dict[str, str]
    runs: list[subprocess.Popen[str]] = field(default_factory=list)

    def trigger(
        self, action: str, dag_id: str = f"stream_{STREAM}", reason: str | None = None
    ) -> subprocess.Popen[str]:
        """Start a run of the stream's DAG: its real tasks and its real trigger, in one process."""
        program = (
            "import json, sys; from airflow.dag_processing.dagbag import DagBag\n"
            "dag = DagBag(sys.argv[1], safe_mode=True).dags[sys.argv[2]]\n"
            "run = dag.test(run_conf=json.loads(sys.argv[3]))\n"
            "for task in run.get_task_instances(): print('RESULT', task.task_id, task.state)\n"
        )
        conf = json.dumps({"action": action, "reason": reason})
        run = subprocess.Popen(
            [sys.executable, "-c", program, str(ROOT / "dags" / "streams.py"), dag_id, conf],
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
        )
        self.runs.append(run)
        return run

    def store_dags(self) -> None:
        """Store the DAGs as this installation writes them, as its DAG processor would have.

        Every `dag.test()` stores what it finds changed, and the address of an asset is this
        installation's own: two runs at once would both add it, and one would fail.
        """
        done = subprocess.run(
            [sys.executable, "-m", "airflow", "dags", "reserialize"],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def run_here(
        self, action: str, dag_id: str = f"stream_{STREAM}", reason: str | None = None, **form: Any
    ) -> dict[str, str]:
        """Run the stream's DAG in this process, for runs that end by themselves."""
        from airflow.dag_processing.dagbag import DagBag

        dag = DagBag(str(ROOT / "dags" / "streams.py")).dags[dag_id]
        run = dag.test(run_conf={"action": action, "reason": reason, **form})
        return task_states({task.task_id: str(task.state) for task in run.get_task_instances()})

    def failed_output(self) -> str:
        """What runs printed that have ended by now, for the message of a test that waits in vain."""
        ended = (run for run in self.runs if run.poll() is not None)
        # The test already has the output of a run that it waited for.
        return "\n".join(run.communicate()[0] for run in ended if run.stdout and not run.stdout.closed)

    def starts(self) -> list[str]:
        """The run id and process id of every driver that was started, oldest first."""
        file = self.home / "starts"
        return file.read_text().splitlines() if file.exists() else []


def results(run: subprocess.Popen[str], timeout_s: float = 90) -> tuple[dict[str, str], str]:
    """Wait for a DAG run; return the state of each task, and everything it printed."""
    output, _ = run.communicate(timeout=timeout_s)
    lines = [line.split() for line in output.splitlines() if line.startswith("RESULT")]
    return task_states({task: state for _, task, state in lines}), output


def task_states(states: dict[str, str]) -> dict[str, str]:
    """The states of a run's tasks, without those of an upgrade and a removal where none was asked for."""
    others = (("upgrade", "skipped"), ("remove", "skipped"))
    return {task: state for task, state in states.items() if (task, state) not in others}


def sent_messages(home: Path) -> list[dict[str, Any]]:
    """What a `JsonLinesNotifier` has written to the file `messages` of an installation."""
    file = home / "messages"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def make_due(layout: Layout) -> None:
    """Let the gap before the next attempt to send a message of the stream `s` pass."""
    from stateward.alerts.incident_document import change_incidents

    past = datetime.now(UTC) - timedelta(seconds=1)
    change_incidents(
        layout,
        "s",
        lambda incidents: replace(
            incidents,
            outbox=tuple(
                replace(one, deliveries=tuple(replace(d, due=past) for d in one.deliveries))
                for one in incidents.outbox
            ),
        ),
    )


def write_quick_spec(folder: Path) -> None:
    """Write the shipped YAML with shorter deadlines and back-off, so that tests need not wait."""
    spec = yaml.safe_load((ROOT / "include" / "streams" / f"{STREAM}.yaml").read_text())
    spec["health"] = {"max_status_age": "3s", "start_deadline": "30s", "stop_deadline": "10s"}
    spec["restart"] = {"backoff": "100ms", "max_attempts": 2, "window": "5m"}
    folder.mkdir(exist_ok=True)
    (folder / f"{STREAM}.yaml").write_text(yaml.safe_dump(spec))


@pytest.fixture
def platform(tmp_path: Path, metadata_database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """An installation in a temporary folder. Everything it has started is ended afterwards."""
    from stateward.control.launchers import processes

    home, binaries, jars = tmp_path / "home", tmp_path / "bin", tmp_path / "jars" / "spark"
    for folder in (home, binaries, jars):
        folder.mkdir(parents=True)
    (jars / "any.jar").touch()
    submit = binaries / "spark3-submit"
    submit.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tests/support/control/stand_in_driver.py" "$@"\n'
    )
    submit.chmod(0o755)
    write_quick_spec(tmp_path / "streams")
    connection = {"conn_type": "spark", "host": "local[2]", "extra": {"spark-binary": "spark3-submit"}}
    environment = {
        "STATEWARD_HOME": str(home),
        "STATEWARD_STREAMS": str(tmp_path / "streams"),
        "STATEWARD_JARS": str(tmp_path / "jars"),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
        "PATH": os.pathsep.join([str(binaries), os.environ["PATH"]]),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    made = Platform(home, environment)
    yield made
    for run in made.runs:
        if run.poll() is None:
            run.kill()
            run.communicate()
    assert processes.kill(processes.find_by_env(home, STREAM), timeout_s=10) == []
