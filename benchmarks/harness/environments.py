"""What benchmarks run in: empty folders, and for each peer, in a cache, a virtual environment and JARs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from stateward.platform.jars.fetch import fetch, read_lock

PEERS = Path(__file__).resolve().parents[1] / "peers"


class EnvironmentBuildError(RuntimeError):
    """A peer cannot be installed here."""


def emptied(folder: Path) -> Path:
    """The folder, with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def python_of(name: str, cache: Path) -> Path:
    """Return the Python of a peer's environment, which is built when its pins are new.

    Args:
        name: of the environment: `peers/<name>.requirements.txt` pins it. Without that file it is the
            project's own.
        cache: folder that holds all environments.

    Raises:
        EnvironmentBuildError: the packages could not be installed; the message ends with the installer's own.
    """
    pins = PEERS / f"{name}.requirements.txt"
    if not pins.exists():
        return Path(sys.executable)
    folder = cache / "venvs" / name
    installed = folder / "installed.txt"
    python = folder / "bin" / "python"
    if installed.exists() and installed.read_bytes() == pins.read_bytes():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    uv = str(Path(sys.executable).parent / "uv")
    _run([uv, "venv", "-q", "--python", sys.executable, str(folder)], name)
    _run([uv, "pip", "sync", "-q", "--require-hashes", str(pins)], name, VIRTUAL_ENV=str(folder))
    # Written last: an interrupted installation starts over.
    shutil.copyfile(pins, installed)
    return python


def jars_of(name: str, cache: Path) -> list[Path]:
    """Return the JARs that `peers/<name>.lock` pins, fetched when they are missing; none without a lock."""
    lock_file = PEERS / f"{name}.lock"
    if not lock_file.exists():
        return []
    lock = read_lock(lock_file)
    # An address of one's own is read where the platform reads it.
    fetch(lock, cache / "jars", os.environ.get("STATEWARD_MAVEN_REPOSITORY"))
    return [cache / "jars" / part / jar.file_name for part, jars in lock.items() for jar in jars]


def _run(command: list[str], name: str, **environment: str) -> None:
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if run.returncode != 0:
        raise EnvironmentBuildError(
            f"environment {name}: `{' '.join(command[1:3])}` failed (exit {run.returncode}): "
            f"{run.stderr[-800:]}"
        )
