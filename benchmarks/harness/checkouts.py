"""Checkouts of the project whose drivers are measured: this one, and one of another commit.

The code that measures is always this checkout's. The other's are the driver, its Python and packages,
its streams, its JARs, and the settings of its JVM.
"""

from __future__ import annotations

import json
import os
import subprocess
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stateward.control.launchers.launch import DRIVER_CONF
from stateward.project.settings import CHECKOUT
from tests.support.spark.launches import checkout_python

# A commit may have launched drivers without an archive of classes.
_ASK_CONF = """
import json, sys
from pathlib import Path
from stateward.control.launchers.launch import DRIVER_CONF
try:
    from stateward.control.launchers.local_jvm import local_jvm_conf
except ImportError:
    local_jvm_conf = lambda *_: {}
print(json.dumps({**DRIVER_CONF, **local_jvm_conf(Path(sys.argv[1], "jars"), "local[2]", DRIVER_CONF)}))
"""


class CheckoutError(RuntimeError):
    """No driver can be started from a folder."""


@dataclass(frozen=True)
class Checkout:
    """One that drivers are started from.

    Attributes:
        folder: Absolute; has its own `.venv` and `jars`.
        commit: The first eight digits, with `-dirty` when files differ from it; empty if git does not know.
        is_before: Whether it is another than the one that measures.
        driver_conf: Settings of Spark that its drivers are launched with.
    """

    folder: Path
    commit: str
    is_before: bool
    driver_conf: Mapping[str, str]

    @property
    def mark(self) -> str:
        """What results add to the name of a contestant; empty for the checkout that measures."""
        return f"@{self.commit}" if self.is_before else ""

    def origin(self) -> dict[str, Any]:
        """What each result says of it."""
        return {"commit": self.commit, "before": self.is_before}


@cache
def this_checkout() -> Checkout:
    """Return the one that measures."""
    return Checkout(CHECKOUT, commit_of(CHECKOUT), False, DRIVER_CONF)


def other_checkout(folder: Path) -> Checkout:
    """Return the one in a folder, which `make setup` has been called in.

    Raises:
        CheckoutError: It has no environment, no JARs or no commit, or its settings cannot be read.
    """
    folder = folder.expanduser().absolute()
    python = Path(checkout_python(folder))
    for needed in (python, folder / "jars" / "spark"):
        if not needed.exists():
            raise CheckoutError(
                f"checkout {folder}: expected {needed}, found nothing. Run `make setup` in it."
            )
    commit = commit_of(folder)
    if not commit:
        raise CheckoutError(
            f"checkout {folder}: expected a clone with a commit, found none. Use `git worktree`."
        )
    asked = subprocess.run(
        [python, "-c", _ASK_CONF, str(folder)],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise CheckoutError(f"checkout {folder}: its settings cannot be read: {asked.stderr[-800:]}")
    return Checkout(folder, commit, True, json.loads(asked.stdout.splitlines()[-1]))


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout, with `-dirty` when files differ from it; empty without git."""
    # Without the exclusion it is the name of a tag.
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return found.stdout.strip()


def add_checkout(parser: ArgumentParser) -> None:
    """Add the option `--checkout` of the programs that measure one driver."""
    parser.add_argument(
        "--checkout",
        type=_checkout,
        default=this_checkout(),
        metavar="FOLDER",
        help="measure the driver of this checkout of another commit, with its own .venv and jars",
    )


def _checkout(folder: str) -> Checkout:
    try:
        return other_checkout(Path(folder))
    except CheckoutError as error:
        raise ArgumentTypeError(str(error)) from error
