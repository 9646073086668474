"""The wheel in the oldest and in the newest Airflow and Python that it allows."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest

from stateward.contract.storage import write_json
from stateward.project.layout import Layout
from tests.cells.conftest import TABLE
from tests.cells.machines import CELLS
from tests.support.fresh_machine import Machine, airflow_found, passed
from tests.support.users_project import EVENTS, SHOP, check_without_engine, lay_out, site_of
from tests.support.wheel import ROOT

pytestmark = pytest.mark.timeout(3600)

Made = tuple[str, Machine]
# Those of the library that need no engine, and the most of what it depends on.
LIBRARY = (
    "tests/unit/airflow",
    "tests/unit/contract",
    "tests/unit/runtime",
    "tests/streams",
    "tests/processors",
)


def note(row: str, cell: str, found: str) -> None:
    TABLE.setdefault(row, {})[cell] = found


def test_the_wheel_installs_and_changes_no_version_of_the_airflow(cell: Made) -> None:
    name, machine = cell
    [wanted] = [one for one in CELLS if one.name == name]
    python = machine.run(machine.python, "-c", "import platform; print(platform.python_version())").strip()
    now = machine.kept_versions()
    assert python.startswith(wanted.python) and now["apache-airflow"].startswith(wanted.airflow)
    assert "pyspark-client" not in now
    note("Python", name, python)
    rows = ("apache-airflow", "apache-airflow-providers-apache-spark", "apache-airflow-providers-standard")
    for package in (*rows, "pyspark", "deltalake", "great-expectations", "msgspec", "pydantic"):
        note(f"`{package}`", name, now[package])
    note(
        "versions of Airflow's packages that the wheel changes",
        name,
        f"0 of {len(machine.frozen.splitlines())}",
    )


def test_its_airflow_parses_every_dag_and_finds_plugins_and_provider(cell: Made) -> None:
    name, machine = cell
    own = replace(machine, name="example")
    for folder in ("dags", "spark_jobs", "include"):
        shutil.copytree(ROOT / folder, own.project / folder)
    home = own.project / "var"
    for file in (own.project / "include" / "streams").glob("*.yaml"):
        # Its DAGs exist once it was started.
        write_json(Layout(home, f"file://{home}/data").control_uri(file.stem), {"stream": file.stem})
    found = airflow_found(own)
    assert {"state_operations", "state_user_sessions", "quality_user_sessions"} <= set(found["dags"])
    note("DAGs of the example project, with import errors", name, f"{len(found['dags'])}, 0")
    note("plugins; provider", name, f"{len(found['plugins'])}; {found['provider']}")


def test_a_new_project_is_validated_and_its_stream_tried(cell: Made) -> None:
    name, machine = cell
    lay_out(machine)
    tests = check_without_engine(machine)
    note("`init`, `new stream`, `validate`, `try`", name, "work")
    note("tests of the new project", name, f"{tests} pass")


def test_the_tests_of_the_library_pass(cell: Made) -> None:
    name, machine = cell
    copy = machine.folder / "checkout"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for file in filter(None, files.stdout.split("\0")):
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, copy / file, follow_symlinks=False)
    pytest_ = (machine.python, "-m", "pytest", "-q", "-n", "2", "--hypothesis-profile", "quick")
    said = machine.run(*pytest_, "-m", "not full", *LIBRARY, cwd=copy)
    note("tests of the library without an engine", name, f"{passed(said)} pass")


def test_its_airflow_supervises_a_stream(cell: Made) -> None:
    name, machine = cell
    case, kafka = replace(SHOP, name="supervised"), machine.folder / "kafka"
    kafka.mkdir()
    with site_of(case, machine, kafka) as site:
        airflow = site.airflow
        airflow.unpause(f"stream_{case.stream}")
        airflow.command("stateward", "start", case.stream)
        site.send(EVENTS)
        site.wait_for_rows(case.rows)
        airflow.command("stateward", "stop", case.stream)
        with airflow.api() as api:
            assert api.import_errors() == []
    note("a stream started, its table written, stopped, by its DAG", name, "works")
