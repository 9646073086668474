"""What the wheel holds, and what it asks for."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.wheel import ROOT, build_wheel

# The lock has an override for this one (overrides.txt).
OVERRIDDEN = {"apache-airflow-providers-apache-spark"}
EXTRAS = {"airflow", "dev", "embedded", "hdfs", "kubernetes", "quality", "s3", "spark", "sql"}
# What every installation uses, whichever extras it has.
ALWAYS_THERE = ("alerts", "contract", "control", "maintenance", "metrics", "pages", "project", "rendering")
COPIES = {
    "stateward/platform/jars/jars.lock": "jars.lock",
    "stateward/cli/project/templates/batch_jobs.yaml": "include/batch_jobs.yaml",
    "stateward/cli/project/templates/docker-compose.yaml": "docker-compose.yaml",
    "stateward/cli/project/templates/env.example": ".env.example",
    "stateward/cli/project/templates/maintenance.yaml": "include/maintenance.yaml",
    "stateward/cli/project/templates/notifiers.yaml": "include/notifiers.yaml",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith("dist-info/METADATA")]
    return message_from_string(wheel.read(name).decode())


def requirements(metadata: Message, extra: str = "") -> dict[str, Requirement]:
    """The requirements of an extra; those of every installation without one."""
    found = [Requirement(line) for line in metadata.get_all("Requires-Dist") or []]
    mark = f'extra == "{extra}"' if extra else None
    return {one.name: one for one in found if (str(one.marker) if one.marker else None) == mark}


def locked(file: str = "requirements.txt") -> dict[str, Version]:
    lines = (ROOT / file).read_text().splitlines()
    pins = [line.split(" ")[0].split("==") for line in lines if line[:1].isalpha() and "==" in line]
    return {name.split("[")[0]: Version(version) for name, version in pins}


def test_it_holds_each_file_of_the_library_and_nothing_of_the_project(wheel: zipfile.ZipFile) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "stateward"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    held = [name for name in wheel.namelist() if ".dist-info/" not in name]

    there = [name for name in tracked if (ROOT / name).is_file()]
    assert sorted(held) == sorted(there)
    assert {Path(name).suffix for name in held} >= {".css", ".j2", ".js", ".lock", ".py"}


def test_each_plugin_has_an_entry_point(wheel: zipfile.ZipFile) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith("dist-info/entry_points.txt")]
    points = ConfigParser(delimiters="=")
    points.read_string(wheel.read(name).decode())
    modules = {value.split(":")[0] for value in points["airflow.plugins"].values()}
    files = (ROOT / "stateward" / "airflow" / "plugins").glob("[a-z]*.py")
    assert modules == {f"stateward.airflow.plugins.{file.stem}" for file in files}


def test_its_copies_are_as_in_the_repository(wheel: zipfile.ZipFile) -> None:
    for copy, original in COPIES.items():
        assert wheel.read(copy) == (ROOT / original).read_bytes()


def test_its_extras_are_those_that_the_documents_name(metadata: Message) -> None:
    assert set(metadata.get_all("Provides-Extra") or []) == EXTRAS
    assert "apache-airflow" not in requirements(metadata)
    assert "pyspark" not in requirements(metadata) | requirements(metadata, "airflow")
    assert {"apache-airflow", "pyspark", "great-expectations", "supervisor"} <= set(
        requirements(metadata, "embedded")
    )


@pytest.mark.parametrize("extra", ["", *sorted(EXTRAS)])
def test_each_range_has_no_pin_and_contains_the_locked_version(metadata: Message, extra: str) -> None:
    pins = locked()
    for name, requirement in requirements(metadata, extra).items():
        assert "==" not in str(requirement.specifier)
        if name not in OVERRIDDEN:
            assert requirement.specifier.contains(pins[name]), f"{requirement}: {pins[name]}"


def test_what_is_always_installed_imports_nothing_that_an_extra_brings(metadata: Message) -> None:
    packages = {"pydantic_core": "pydantic", "upath": "universal-pathlib", "yaml": "pyyaml"}
    asked = {"stateward", *requirements(metadata)}
    for folder in ALWAYS_THERE:
        for file in (ROOT / "stateward" / folder).rglob("*.py"):
            for name in imported(file) - sys.stdlib_module_names:
                assert packages.get(name, name.replace("_", "-")) in asked, f"{file} imports {name}"


def imported(file: Path) -> set[str]:
    """The packages that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add(str(node.module).split(".")[0])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
    return found


@pytest.mark.parametrize("file", ["requirements-image.txt", "requirements-spark.txt"])
def test_the_images_have_the_versions_of_the_lock_and_no_tools(file: str) -> None:
    every, image = locked(), locked(file)
    assert {name: every.get(name) for name in image} == image
    tools = {"check-jsonschema", "hypothesis", "import-linter", "mkdocs", "mutmut", "mypy", "playwright"}
    tools |= {"pre-commit", "pytest", "ruff", "uv", "vl-convert-python"}
    assert tools <= every.keys() and not tools & image.keys()


def test_the_image_has_what_the_wheel_needs_for_the_embedded_platform(metadata: Message) -> None:
    extras = ("", "airflow", "embedded", "quality", "spark", "sql")
    needed = {name for extra in extras for name in requirements(metadata, extra)}
    assert needed - {"stateward"} <= locked("requirements-image.txt").keys()
