"""From nothing, without this checkout: the wheel beside an Airflow that is there, and a new project."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.fresh_machine import UV, Machine, airflow_found, with_airflow_and_wheel
from tests.support.full import ci_full

pytestmark = [ci_full, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """An Airflow alone, resolved and frozen, to which the wheel is added."""
    return with_airflow_and_wheel(tmp_path_factory.mktemp("machine"), "airflow,dev")


@pytest.fixture(scope="module")
def project(machine: Machine) -> Path:
    """A new project with the stream `refunds`; the folder `machine.project`."""
    stateward = machine.python.parent / "stateward"
    machine.run(stateward, "init", machine.name)
    machine.run(stateward, "new", "stream", "refunds", "--key", "order_id", cwd=machine.project)
    return machine.project


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


def test_a_project_and_a_stream_are_laid_out_and_its_tests_pass(machine: Machine, project: Path) -> None:
    stateward = machine.python.parent / "stateward"
    assert "passed" in machine.run(machine.python, "-m", "pytest", "-q", cwd=project)
    machine.run(stateward, "validate", cwd=project)
    assert "refunds" in machine.run(stateward, "status", cwd=project)
    assert "0 files changed" in machine.run(stateward, "update", cwd=project)


def test_its_stream_is_tried_and_planned_before_anything_runs(machine: Machine, project: Path) -> None:
    stateward, event = (
        machine.python.parent / "stateward",
        '{"event_id": "%s", "order_id": "a", "event_time": "%s"}',
    )
    lines = [event % ("1", "2026-03-01T12:00:00Z"), event % ("2", "2026-03-01T12:02:00Z"), "{"]
    (project / "events.jsonl").write_text("\n".join(lines))
    said = machine.run(stateward, "try", "refunds", "events.jsonl", cwd=project)
    assert "refunds: 1 row" in said and "malformed_json" in said
    assert "refunds: was never started." in machine.run(stateward, "plan", cwd=project)


def test_a_command_of_an_extra_that_is_missing_names_the_extra(machine: Machine, project: Path) -> None:
    done = subprocess.run(
        [machine.python.parent / "stateward", "jars"],
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
    said = airflow_found(machine)
    assert said["library"].startswith(str(machine.folder / "venv"))
    assert said["errors"] == {}
    assert said["dags"] == ["state_inspection", "state_operations", "stream_refunds"]
    assert len(said["plugins"]) == len(set(said["plugins"])) >= 8
    assert said["provider"]
