"""From nothing, without this checkout: the wheel beside an Airflow that is there, and a new project."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.fresh_machine import UV, Machine, airflow_found, with_airflow_and_wheel
from tests.support.full import ci_full
from tests.support.users_project import check_without_engine, lay_out

pytestmark = [ci_full, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """An Airflow alone, resolved and frozen, to which the wheel is added."""
    return with_airflow_and_wheel(tmp_path_factory.mktemp("machine"), "airflow,dev")


@pytest.fixture(scope="module")
def project(machine: Machine) -> Path:
    """A new project with the stream `refunds`; the folder `machine.project`."""
    lay_out(machine)
    return machine.project


def test_no_version_of_the_airflow_changes(machine: Machine) -> None:
    assert "apache-airflow-providers-apache-spark" in machine.kept_versions()
    assert "apache-airflow-providers-apache-spark" not in machine.frozen


def test_every_extra_can_be_resolved_with_that_airflow(machine: Machine) -> None:
    [wheel] = (machine.folder / "dist").glob("*.whl")
    (machine.folder / "wanted.in").write_text(f"stateward[embedded,dev] @ {wheel.as_uri()}\n")
    found = machine.run(UV, "pip", "compile", "-q", "--constraint", "airflow.txt", "wanted.in")
    names = {line.split("==")[0] for line in found.splitlines() if "==" in line}
    assert {"pyspark", "great-expectations", "supervisor"} <= names
    # It would overwrite PySpark.
    assert "pyspark-client" not in names


def test_a_project_and_a_stream_are_laid_out_tried_and_planned(machine: Machine, project: Path) -> None:
    assert "0 files changed" in machine.run(machine.stateward, "update", cwd=project)
    assert check_without_engine(machine) > 0
    assert "refunds" in machine.run(machine.stateward, "status", cwd=project)
    assert "refunds: was never started." in machine.run(machine.stateward, "plan", cwd=project)


def test_a_command_of_an_extra_that_is_missing_names_the_extra(machine: Machine, project: Path) -> None:
    done = subprocess.run(
        [machine.stateward, "jars"],
        cwd=project,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install 'stateward[spark]'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.usefixtures("project")
def test_that_airflow_parses_its_dags_and_finds_plugins_and_provider(machine: Machine) -> None:
    assert airflow_found(machine)["dags"] == ["state_inspection", "state_operations", "stream_refunds"]
