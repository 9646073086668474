"""Zips of code: the same code is the same zip, and the newest stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stateward.control.releases.code_zip import KEPT_ZIPS, zip_code


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "source" / "shop"
    (folder / "inner" / "__pycache__").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "inner" / "__init__.py").write_text("VALUE = 7\n")
    (folder / "inner" / "__pycache__" / "x.pyc").touch()
    return folder


def test_the_same_code_makes_the_same_zip_and_an_edit_another(package: Path, tmp_path: Path) -> None:
    first = zip_code([package], tmp_path / "one")
    os.utime(package / "__init__.py", (1, 1))
    second = zip_code([package], tmp_path / "two")
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())
    (package / "__init__.py").write_text("# edited\n")
    assert zip_code([package], tmp_path / "one").name != first.name


def test_python_imports_from_it(package: Path, tmp_path: Path) -> None:
    made = zip_code([package], tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "import shop.inner; print(shop.inner.VALUE, shop.__file__)"],
        env={"PYTHONPATH": made.name},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["7", str(tmp_path / made.name / "shop" / "__init__.py")]


def test_one_that_is_there_is_not_written_again(package: Path, tmp_path: Path) -> None:
    made = zip_code([package], tmp_path)
    made.write_bytes(b"as it was")
    assert zip_code([package], tmp_path).read_bytes() == b"as it was"


def test_the_newest_stay(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "zips"
    made = []
    for number in range(KEPT_ZIPS + 3):
        (package / "__init__.py").write_text(f"{number}\n")
        made.append(zip_code([package], folder))
        os.utime(made[-1], (number, number))
    assert sorted(folder.iterdir()) == sorted(made[-KEPT_ZIPS:])
