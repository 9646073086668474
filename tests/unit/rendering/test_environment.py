"""Templates are found where a job on a cluster has its code: in a zip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stateward.control.releases.code_zip import zip_code
from stateward.project.settings import LIBRARY

_STATE = """
from stateward.state.pages import page
made = page._environment()
print(made.get_template("inspect.html.j2").filename, made.get_template("base.css").filename)
"""


def test_templates_are_found_in_a_zip_of_the_library(tmp_path: Path) -> None:
    packed = zip_code((LIBRARY,), tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(packed)!r}){_STATE}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [one.startswith(str(packed)) for one in done.stdout.split()[-2:]] == [True, True]
