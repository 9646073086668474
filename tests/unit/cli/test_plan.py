"""`stateward plan`: what it finds in a project that differs from what runs, by its own processes."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from spark_jobs.device_lifecycle.declaration import JOB
from stateward.cli.streams import plan as command
from stateward.cli.streams.plan import PlanError, plans_of, specs_of
from stateward.contract.process_output import PlanExit
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control
from stateward.control.jobs.upgrade_plan import Running, UpgradePlan
from stateward.control.launchers.launch import driver_config
from stateward.control.releases import release as releases
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.state.compatibility.descriptor import describe, write_descriptor
from tests.support.state.installed_stream import STREAM, Installed

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
COMPATIBLE: dict[str, Any] = {"level": "compatible", "findings": []}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A copy of this repository's project, one stream of which runs as it is there."""
    for folder in ("spark_jobs", "include"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder)
    monkeypatch.setenv("STATEWARD_PROJECT", str(tmp_path))
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path / "home"))
    settings = Settings()
    layout = Layout.of(settings)
    installed = Installed(settings.home)
    installed.run(0)
    # Its stand-in for Spark's own metadata names no variables of the state.
    shutil.rmtree(installed.path / "state" / "0" / "_metadata")
    write_descriptor(installed.generation.uri, describe(JOB, installed.config))
    [spec] = specs_of(STREAM, settings)
    write_json(layout.config_uri(STREAM), as_json(driver_config(spec, settings, "run-1")))
    kept = releases.keep(STREAM, settings)
    write_json(layout.control_uri(STREAM), as_json(Control(STREAM, "running", "run-1", NOW, release=kept.id)))
    return settings


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def planned(settings: Settings) -> UpgradePlan:
    [plan] = plans_of(specs_of(STREAM, settings), settings)
    return plan


def test_a_setting_and_a_file_that_differ_are_named_with_steps_and_pause(project: Settings) -> None:
    same = planned(project)
    assert same.text() == [f"{STREAM}: compatible; nothing changes."], same
    assert (same.steps, same.pause_s, same.is_refused) == ([], 0.0, False)

    edit(project.streams / f"{STREAM}.yaml", "stream:", "trigger_interval: 7s\nstream:")
    edit(project.jobs / STREAM / "transitions.py", '"""', '"""Edited. ')
    changed = planned(project)
    assert not changed.is_refused and changed.verdict["level"] == "compatible"
    text = changed.text()
    assert "  setting: trigger_interval_ms: 1000 -> 7000" in text
    assert [line for line in text if "  code:" in line] == [f"  code: spark_jobs/{STREAM}/transitions.py"]
    assert "  step 3: savepoint" in text and "  expected pause: about 1 min 30 s" in text


def test_a_state_that_the_code_cannot_read_has_the_exit_code_of_a_refusal(
    project: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(project.streams / f"{STREAM}.yaml", "stream:", "state: {buckets: 96}\nstream:")
    with pytest.raises(typer.Exit) as ended:
        command.run(STREAM, as_json=True)
    assert (ended.value.exit_code, int(PlanExit.REFUSED)) == (3, 3)
    [plan] = json.loads(capsys.readouterr().out)["streams"]
    assert plan["verdict"] == "needs migration"
    assert plan["steps"] and plan["pause_s"] is None
    assert plan["settings"] == [{"name": "state_buckets", "before": "64", "now": "96"}]


def test_a_declaration_that_cannot_be_imported_is_an_error_of_its_stream(
    project: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.jobs / STREAM / "machine.py").write_text("print('from the project')\n1/0\n")
    with pytest.raises(PlanError, match=f"^{STREAM} cannot be judged"):
        command.run(None, as_json=False)
    said = capsys.readouterr().out
    assert f"{STREAM}: cannot be judged. ZeroDivisionError" in said
    assert "user_sessions: was never started." in said
    assert "table: sessions: created by the start" in said


def test_code_of_a_release_that_is_not_here_is_said_to_be_another_one() -> None:
    plan = UpgradePlan("s", Running("c-y", True, ("code",), None, 90.0), COMPATIBLE, [], [])
    assert "  code: another code; the release c-y is not on this machine" in plan.text()
    assert plan.as_json()["files"] is None


def test_a_new_library_is_one_line() -> None:
    files = ["spark_jobs/s/logic.py", "stateward/a.py", "stateward/b.py"]
    text = UpgradePlan(
        "s", Running("c-l-y", True, ("code", "library"), files, 90.0), COMPATIBLE, [], []
    ).text()
    assert [line for line in text if "code:" in line] == [
        "  code: spark_jobs/s/logic.py",
        "  code: 2 files of the library",
    ]


def test_a_stopped_stream_is_started_with_what_is_new_and_does_not_pause() -> None:
    plan = UpgradePlan("s", Running("c-y", False, ("YAML",), (), 90.0), COMPATIBLE, [], [])
    assert plan.steps == ["start with the current code and YAML"]
    assert plan.pause_s == 0.0


def test_settings_of_the_machine_are_no_change_of_the_project(project: Settings) -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("STATEWARD_KAFKA_BOOTSTRAP", "elsewhere:9092")
        assert planned(Settings()).settings == []
