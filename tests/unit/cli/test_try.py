"""`stateward try` with files: its tables, its options, and a run after every save."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stateward.cli.main import app
from stateward.cli.streams.trial_files import again_and_again, run_once
from stateward.project.settings import CHECKOUT, Settings

EVENT = {"event_id": "a", "user_id": "u", "event_type": "view", "event_time": "2024-01-01T00:00:00Z"}


def replaced(file: Path, old: str, new: str) -> None:
    """Replace a text in a file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


class EnoughError(Exception):
    """The test has seen all that it wants to see."""


@pytest.fixture
def project(tmp_path: Path) -> Settings:
    """A copy of this repository's project that a test may change."""
    for folder in ("spark_jobs", "include"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder)
    return Settings(project=tmp_path)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "events.jsonl"
    file.write_text(json.dumps(EVENT) + "\nno json\n")
    return file


def test_an_edit_of_the_logic_of_the_yaml_or_of_the_events_is_seen_in_the_next_run(
    project: Settings, events: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = project.jobs / "user_sessions" / "model.py"
    yaml = project.streams / "user_sessions.yaml"

    def without_events() -> None:
        replaced(yaml, "ownr:", "owner:")
        events.unlink()

    edits: list[Callable[[], object]] = [
        lambda: replaced(model, '"TIMEOUT"', '"QUIET"'),
        lambda: replaced(yaml, "owner:", "ownr:"),
        without_events,
        lambda: events.write_text(json.dumps({**EVENT, "user_id": "someone"})),
    ]
    seen: list[str] = []

    def wait() -> None:
        """Take what the last run printed, and save the next file."""
        found = capfd.readouterr()
        seen.append(found.out + found.err)
        if not edits:
            raise EnoughError
        edits.pop(0)()

    with pytest.raises(EnoughError):
        again_and_again(project, "user_sessions", [str(events)], rows=5, wait=wait)
    first, quiet, invalid, gone, other = seen
    assert "sessions: 1 row, 1 of them after the last line" in first and "TIMEOUT" in first
    assert "dead_letters: 1 row" in first and "malformed_json" in first
    assert "2 records (1 accepted, 1 dead)" in first
    assert "QUIET" in quiet and "TIMEOUT" not in quiet
    assert f"{yaml}:" in invalid and "ownr" in invalid
    assert f"{events}, found none" in gone
    assert "someone" in other and "dead_letters" not in other


def test_a_run_that_fails_says_why(
    project: Settings, events: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project.jobs / "user_sessions" / "logic.py").write_text("def \n")
    assert not run_once(project, "user_sessions", [str(events)], rows=5)
    assert "logic.py" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["events.jsonl", "--rate", "5", "--for", "1s"], "--rate, --for: only for made-up records"),
        (["--watch"], "expected a file of events to watch"),
        (["a.jsonl", "b.jsonl"], "expected one file of topic user_events, found two"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], message: str) -> None:
    result = CliRunner(env={"COLUMNS": "300", "TERM": "dumb"}).invoke(app, ["try", "user_sessions", *options])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_neither_spark_nor_airflow_is_imported() -> None:
    """A run would take seconds with either."""
    program = (
        "import sys, stateward.trial.file_job, spark_jobs.user_sessions.declaration;"
        " print({'pyspark', 'airflow', 'pandas', 'great_expectations'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
