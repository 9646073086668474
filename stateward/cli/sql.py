"""`stateward sql`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import typer

from stateward.contract.names import PLATFORM_TABLES, SHARED_TABLES
from stateward.platform.running import running_settings
from stateward.project.layout import Layout
from stateward.project.settings import Settings, python_path
from stateward.project.spec import SHARED, load_specs

_SESSION = "stateward.quality.quarantine.sql_session"


def run(queries: list[str]) -> None:
    """Run the queries, or read statements from the terminal; exit code 1 if the last one failed."""
    settings = running_settings(Settings())
    tables = dict.fromkeys((*SHARED_TABLES, *PLATFORM_TABLES), SHARED)
    for spec in load_specs(settings.streams)[0]:
        tables |= dict.fromkeys(spec.tables, spec.stream)
    request = {"tables_uri": Layout.of(settings).table_uri("").rstrip("/"), "tables": tables}
    done = subprocess.run(
        [sys.executable, "-m", _SESSION, json.dumps(request), *queries],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(python_path())},
        check=False,
    )
    raise typer.Exit(done.returncode)
