"""The oldest Airflow with the oldest Python that the wheel allows, and the newest with the newest."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.fresh_machine import UV, Machine, add_wheel, run
from tests.support.wheel import ROOT

EXTRAS = "airflow,spark,quality,sql,dev"
# What the tests of the library need beside the extra `dev`.
FOR_TESTS = ("pytest-timeout", "pytest-xdist")
ENTER = Path(__file__).parent / "enter.sh"
SYSTEM = ROOT / "var" / "cells" / "trixie"
"""Kept, so that it is made once."""
# Java 21 is the newest that Spark 4.2 supports, and the one of trixie.
_PACKAGES = "python3,python3-venv,ca-certificates,git,openjdk-21-jre-headless,procps"


@dataclass(frozen=True)
class Cell:
    """One of the two.

    Attributes:
        name: How the table names it.
        make: Makes the machine in an empty folder.
        python, airflow: How the versions begin.
    """

    name: str
    make: Callable[[Path], Machine]
    python: str
    airflow: str


def oldest(folder: Path) -> Machine:
    """Airflow 3.1.7 and its packages, as they were in the week of its release."""
    bare = Machine(folder)
    run(UV, "venv", "-q", "--python", "3.11", folder / "venv", cwd=folder)
    then = ("apache-airflow==3.1.7", "--exclude-newer", "2026-02-07")
    return with_tests(add_wheel(bare, EXTRAS, airflow=then))


def newest(folder: Path) -> Machine:
    """What the index offers today, with the Python of Debian trixie."""
    if not SYSTEM.exists():
        SYSTEM.parent.mkdir(parents=True, exist_ok=True)
        new = SYSTEM.with_name(f"trixie-{os.getpid()}")
        # The mirror is debootstrap's own, unless this names another one.
        mirror = filter(None, [os.environ.get("DEBIAN_MIRROR")])
        run("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "trixie", new, *mirror, cwd=folder)
        new.rename(SYSTEM)
    enter = tuple(map(str, (ENTER, SYSTEM, folder, UV.resolve())))
    bare = Machine(folder, enter=enter, uv="uv")
    bare.run("uv", "venv", "-q", "--python", "/usr/bin/python3.13", folder / "venv")
    return with_tests(add_wheel(bare, EXTRAS, airflow=("apache-airflow>=3,<4",)))


def with_tests(machine: Machine) -> Machine:
    machine.run(machine.uv, "pip", "install", "-q", "--constraint", "airflow.txt", *FOR_TESTS)
    return machine


CELLS = (
    Cell("oldest", oldest, "3.11.", "3.1.7"),
    Cell("newest", newest, "3.13.", "3."),
)


def why_not() -> str:
    """Why the cells cannot be made on this machine; empty if they can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "debootstrap and chroot need root on Linux"
    return "" if shutil.which("debootstrap") else "debootstrap is missing: apt-get install debootstrap"
