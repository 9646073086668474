"""The wheel of the library, built from this checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path) -> Path:
    """Build the wheel into a folder, without another environment and without the network."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = folder.glob("*.whl")
    return wheel


def installed_metadata(folder: Path) -> Path:
    """What an installation of the wheel adds to a `PYTHONPATH` for its entry points, without its modules."""
    with zipfile.ZipFile(build_wheel(folder)) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" in name and not name.endswith("/RECORD")]
        wheel.extractall(folder / "metadata", names)
    return folder / "metadata"
