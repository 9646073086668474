"""The site of the documentation: every page has a place in it, and every link leads somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from proof.site import versions
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
    for page, said in (
        ("reference/settings", "STATEWARD_KAFKA_BOOTSTRAP"),
        ("reference/commands", "stateward suspend"),
        ("reference/api", "KeyLogic"),
        ("stream-yaml", "<code>source.tick.interval</code>"),
        ("metrics", "<td><code>stateward_stream_lag_records</code></td>"),
        ("health", "<td><code>commit_age</code></td>"),
        ("compatibility", "<td>Spark (PySpark)</td>"),
        ("upgrade", f"Stateward {versions.version()}"),
    ):
        assert said in (tmp_path / "site" / page / "index.html").read_text(), f"{page} has no {said}"
