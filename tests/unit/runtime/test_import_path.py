"""The installed PySpark is imported, with its bytecode, instead of spark-submit's archives."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stateward.project.settings import CHECKOUT
from stateward.runtime.import_path import without_archives


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder of libraries with PySpark, its archives and py4j."""
    archives = tmp_path / "site" / "pyspark" / "python" / "lib"
    archives.mkdir(parents=True)
    for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip"):
        (archives / name).touch()
    for package in ("pyspark", "py4j"):
        (tmp_path / "site" / package).mkdir(exist_ok=True)
        (tmp_path / "site" / package / "__init__.py").touch()
    return tmp_path / "site"


def _archives(site: Path) -> list[str]:
    lib = site / "pyspark" / "python" / "lib"
    return [str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip")]


def test_the_archives_of_the_installed_package_are_dropped(installed: Path) -> None:
    path = [*_archives(installed), "/job", str(installed), "/usr/lib/python311.zip"]
    assert without_archives(path) == ["/job", str(installed), "/usr/lib/python311.zip"]


def test_archives_of_another_installation_stay(installed: Path, tmp_path: Path) -> None:
    other = str(tmp_path / "spark-4.0" / "python" / "lib" / "pyspark.zip")
    assert without_archives([other, str(installed)]) == [other, str(installed)]


def test_archives_stay_where_nothing_is_installed(installed: Path) -> None:
    path = [*_archives(installed), "/job"]
    assert without_archives(path) == path


def test_archives_stay_where_py4j_is_not_installed(installed: Path) -> None:
    (installed / "py4j" / "__init__.py").unlink()
    (installed / "py4j").rmdir()
    path = [*_archives(installed), str(installed)]
    assert without_archives(path) == path


def test_a_process_that_imports_the_runtime_has_the_installed_pyspark() -> None:
    code = "import stateward.runtime, importlib.util as u; print(u.find_spec('pyspark').origin)"
    origin = importlib.metadata.distribution("pyspark").locate_file("pyspark/__init__.py")
    archives = (Path(str(origin)).parent / "python" / "lib").glob("*.zip")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, archives), str(CHECKOUT)])}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(origin)
