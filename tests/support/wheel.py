"""The wheel of the library, built from this checkout."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel into a folder, without another environment and without the network."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = folder.glob("*.whl")
    return wheel


def build_version(folder: Path, version: str, additions: Mapping[str, str]) -> Path:
    """Build the wheel of another version of the library into a folder.

    Args:
        folder: Is made.
        version: Takes the place of the version in pyproject.toml.
        additions: What is added to the end of modules, by their paths.
    """
    source = folder / "source"
    shutil.copytree(ROOT / "stateward", source / "stateward", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    pyproject = source / "pyproject.toml"
    pyproject.write_text(
        re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', pyproject.read_text(), count=1)
    )
    for name, text in additions.items():
        module = source / "stateward" / name
        module.write_text(module.read_text() + text)
    return build_wheel(folder / "dist", source)
