"""The site of the documentation: every page has a place in it, and every link leads somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stateward.project.settings import CHECKOUT


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            str(tmp_path / "site"),
        ],
        cwd=CHECKOUT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, f"a page without a place in mkdocs.yml, or a broken link: {built.stderr}"
    settings = (tmp_path / "site" / "reference" / "settings" / "index.html").read_text()
    assert "STATEWARD_KAFKA_BOOTSTRAP" in settings
    commands = (tmp_path / "site" / "reference" / "commands" / "index.html").read_text()
    assert "stateward suspend" in commands
    api = (tmp_path / "site" / "reference" / "api" / "index.html").read_text()
    assert "KeyLogic" in api
