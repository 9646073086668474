"""From nothing, without this checkout: the wheel beside an Airflow that is there, and a new project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.full import ci_full
from tests.support.wheel import ROOT, build_wheel

pytestmark = [ci_full, pytest.mark.timeout(1200)]

UV = Path(sys.executable).parent / "uv"
# What Airflow says after it was installed; printed as the last line.
PROGRAM = """
import json
import stateward
from airflow import plugins_manager
from airflow.dag_processing.dagbag import DagBag
from airflow.providers_manager import ProvidersManager
bag = DagBag()
plugins, errors = plugins_manager._get_plugins()
print(json.dumps({
    "library": stateward.__file__,
    "dags": sorted(bag.dags),
    "errors": {**bag.import_errors, **errors},
    "plugins": sorted(one.name for one in plugins if one.name.startswith("stateward")),
    "provider": ProvidersManager().providers["stateward"].version,
}))
"""


@dataclass(frozen=True)
class Machine:
    """A virtual environment, and the folder in which a person works."""

    folder: Path
    frozen: str

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def project(self) -> Path:
        return self.folder / "shop"

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        """Run a command with nothing of this process's environment that names the checkout."""
        return run(*command, cwd=cwd or self.folder, environment=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        ours = ("AIRFLOW", "STATEWARD", "PYTHON", "VIRTUAL_ENV", "COV_", "PYTEST")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.project / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "VIRTUAL_ENV": str(self.folder / "venv"),
        }

    def versions(self) -> dict[str, str]:
        """The version of each package that is installed."""
        lines = self.run(UV, "pip", "freeze").splitlines()
        return dict(line.split("==") for line in lines if "==" in line)


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """An Airflow alone, resolved and frozen, to which the wheel is added."""
    folder = tmp_path_factory.mktemp("machine")
    wheel = build_wheel(folder / "dist")
    bare = Machine(folder, "")
    run(UV, "venv", "-q", "--python", sys.executable, folder / "venv", cwd=folder)
    # The versions of the lock: what an index offers can differ from one question to the next.
    lock = ROOT / "requirements.txt"
    bare.run(UV, "pip", "install", "-q", "--constraint", lock, "apache-airflow>=3.3,<4")
    frozen = bare.run(UV, "pip", "freeze")
    (folder / "airflow.txt").write_text(frozen)
    made = Machine(folder, frozen)
    with_extras = f"stateward[airflow,dev] @ {wheel.as_uri()}"
    made.run(UV, "pip", "install", "-q", "--constraint", "airflow.txt", with_extras)
    return made


def test_no_version_of_the_airflow_changes(machine: Machine) -> None:
    before = dict(line.split("==") for line in machine.frozen.splitlines())
    now = machine.versions()
    assert {name: now.get(name) for name in before} == before
    assert "apache-airflow-providers-apache-spark" in now.keys() - before.keys()


def test_every_extra_can_be_resolved_with_that_airflow(machine: Machine) -> None:
    [wheel] = (machine.folder / "dist").glob("*.whl")
    (machine.folder / "wanted.in").write_text(f"stateward[embedded,dev] @ {wheel.as_uri()}\n")
    found = machine.run(UV, "pip", "compile", "-q", "--constraint", "airflow.txt", "wanted.in")
    names = {line.split("==")[0] for line in found.splitlines() if "==" in line}
    assert {"pyspark", "great-expectations", "supervisor"} <= names
    # It would overwrite PySpark.
    assert "pyspark-client" not in names


def test_a_project_and_a_stream_are_laid_out_and_its_tests_pass(machine: Machine) -> None:
    stateward = machine.python.parent / "stateward"
    machine.run(stateward, "init", "shop")
    machine.run(stateward, "new", "stream", "refunds", "--key", "order_id", cwd=machine.project)
    assert "passed" in machine.run(machine.python, "-m", "pytest", "-q", cwd=machine.project)
    machine.run(stateward, "validate", cwd=machine.project)
    assert "refunds" in machine.run(stateward, "status", cwd=machine.project)


def test_a_command_of_an_extra_that_is_missing_names_the_extra(machine: Machine) -> None:
    done = subprocess.run(
        [machine.python.parent / "stateward", "jars"],
        cwd=machine.project,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install 'stateward[spark]'" in done.stderr and "Traceback" not in done.stderr


def test_that_airflow_parses_its_dags_and_finds_plugins_and_provider(machine: Machine) -> None:
    said: dict[str, Any] = json.loads(machine.run(machine.python, "-c", PROGRAM).splitlines()[-1])
    assert said["library"].startswith(str(machine.folder / "venv"))
    assert said["errors"] == {}
    assert said["dags"] == ["state_inspection", "state_operations", "stream_refunds"]
    assert len(said["plugins"]) == len(set(said["plugins"])) >= 8
    assert said["provider"]
