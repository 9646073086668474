"""The stream that docs/new-stream.md shows is made of the page's own code, and works."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import spark_jobs
from stateward.project.spec import load_spec
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.sink.output_rows import decode_rows, encode_rows
from stateward.testing.declarations import Records, check_fields, check_state, check_tables

PAGE = Path(__file__).resolve().parents[3] / "docs" / "new-stream.md"
FILE = re.compile(r"^## \d+\. [^\n]*`(?P<path>[^`]+)`$\s+```(?:python|yaml)\n(?P<code>.*?)^```", re.M | re.S)
STREAM = "door_refusals"
RESULTS = ("opened", "refused", "refused", "opened", "refused", "refused")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with the files of the page and nothing else."""
    for found in FILE.finditer(PAGE.read_text()):
        target = tmp_path / found["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(found["code"])
    monkeypatch.setattr(spark_jobs, "__path__", [*spark_jobs.__path__, str(tmp_path / "spark_jobs")])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(f"spark_jobs.{STREAM}")]:
        del sys.modules[name]


def declaration(project: Path) -> Any:
    assert (project / "spark_jobs" / STREAM / "declaration.py").is_file()
    return importlib.import_module(f"spark_jobs.{STREAM}.declaration").JOB


def test_a_stream_is_five_files_and_none_of_the_library(project: Path) -> None:
    files = [str(file.relative_to(project)) for file in project.rglob("*") if file.is_file()]
    assert sorted(files) == [
        "include/streams/door_refusals.yaml",
        "spark_jobs/door_refusals/declaration.py",
        "spark_jobs/door_refusals/logic.py",
        "spark_jobs/door_refusals/model.py",
        "tests/streams/door_refusals/test_logic.py",
    ]


def test_its_yaml_is_checked_against_its_settings(project: Path) -> None:
    spec = load_spec(STREAM, project / "include" / "streams", project / "spark_jobs")
    assert spec.logic.config() == {"quiet_ms": 600_000, "max_held_events": 10_000}
    assert spec.tables == [output.table.name for output in declaration(project).outputs]


def test_it_keeps_the_contract_of_every_stream(project: Path) -> None:
    job = declaration(project)
    check_fields(Records(STREAM, job, SimpleNamespace(logic={})))
    check_state(job)
    check_tables(job, project)


def test_its_rows_are_what_the_page_says(project: Path) -> None:
    records = Records(STREAM, declaration(project), SimpleNamespace(logic={"quiet_ms": 15_000}), badge_id="b")
    events = [
        records.event(second, result=result)
        for second, result in zip((0, 1, 2, 3, 10, 25), RESULTS, strict=True)
    ]
    (output,) = records.job.outputs
    rows = replay_oracle(
        records.job.logic(records.config), "b", [*events, records.event(25, result="refused")]
    )
    found = decode_rows(encode_rows(output.table, rows)).to_pylist()
    assert [(row["refusals"], row["outcome"], row["last_at"].second) for row in found] == [
        (2, "OPENED", 2),
        (1, "GAVE_UP", 10),
        (1, "GAVE_UP", 25),
    ]


def test_its_own_test_is_green(project: Path) -> None:
    root = PAGE.parents[1]
    # The folder of the page's stream is one more of the package's.
    (project / "conftest.py").write_text(
        f"import sys; sys.path.insert(0, {str(root)!r})\n"
        f"import spark_jobs; spark_jobs.__path__.append({str(project / 'spark_jobs')!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(project), "tests"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "6 passed" in done.stdout, done.stdout + done.stderr


def test_it_names_every_type_that_shipped_tables_have() -> None:
    types = re.findall(
        r"^  \w+ (?:array<)?(\w+)", (PAGE.parents[1] / "tests/streams/tables.txt").read_text(), re.M
    )
    named = set(re.findall(r"`(?:Col\(type=\")?(\w+)(?:\"\))?`", PAGE.read_text()))
    assert {"string", "timestamp"} < set(types) <= named
