"""Parsing the DAG files is cheap: it loads neither an engine nor a validation library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from stateward.project.settings import CHECKOUT


def test_parsing_the_dags_loads_no_heavy_library(tmp_path: Path) -> None:
    program = (
        "import importlib.util, json, sys\n"
        "for name in sys.argv[1:]:\n"
        "    spec = importlib.util.spec_from_file_location('dag_file', name)\n"
        "    spec.loader.exec_module(importlib.util.module_from_spec(spec))\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    files = [str(file) for file in sorted((CHECKOUT / "dags").rglob("*.py"))]
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, "-c", program, *files],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "airflow" in loaded
    assert not loaded & {"pyspark", "great_expectations", "deltalake", "spark_jobs"}
