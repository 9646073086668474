"""A project's streams are found by their names, and their settings in files that are not imported."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from stateward.project.project import NoSuchStreamError, Project, SettingsLoadError, own_line
from stateward.project.spec import SpecError, load_spec, load_specs
from tests.support.small_spec import small_spec

MODEL = """
from dataclasses import dataclass
from typing import Annotated

from stateward.contract.stream_settings import MINUTE, Between, SettingsError, StreamSettings


@dataclass(frozen=True, kw_only=True)
class SmallSettings(StreamSettings):
    quiet_ms: int = 15 * MINUTE
    share: Annotated[float, Between(0, 1)] = 0.5
    label: str = "x"

    def check(self):
        if self.label == "wrong":
            raise SettingsError("logic.label to be right")
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    (tmp_path / "spark_jobs" / "small").mkdir(parents=True)
    (tmp_path / "spark_jobs" / "small" / "model.py").write_text(MODEL)
    return tmp_path / "spark_jobs"


def spec_of(jobs: Path, **logic: object) -> dict[str, object]:
    return small_spec(jobs.parent, jobs, logic=logic).logic.config()


def test_settings_are_read_by_the_fields_of_their_class(jobs: Path) -> None:
    assert spec_of(jobs) == {"quiet_ms": 900_000, "share": 0.5, "label": "x"}
    assert spec_of(jobs, quiet="1h30m", share=1.0) == {"quiet_ms": 5_400_000, "share": 1.0, "label": "x"}
    assert not {name for name in sys.modules if name.startswith("spark_jobs.small")}


@pytest.mark.parametrize(
    ("logic", "said"),
    [
        ({"quiet": 900}, r"logic\.quiet: expected a duration such as"),
        ({"quite": "1h"}, r"logic\.quite: expected one of quiet, share, label.*Rename it to `quiet`"),
        ({"share": 1.5}, r"logic\.share: expected a number of at most 1"),
        ({"label": "wrong"}, r"logic: expected logic\.label to be right"),
    ],
)
def test_what_the_class_does_not_allow_is_refused(jobs: Path, logic: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        spec_of(jobs, **logic)


def test_a_class_that_changes_is_read_again(jobs: Path) -> None:
    assert spec_of(jobs)["quiet_ms"] == 900_000
    (jobs / "small" / "model.py").write_text(MODEL.replace("quiet_ms: int = 15", "quiet_ms: int = 100"))
    assert spec_of(jobs)["quiet_ms"] == 6_000_000


def test_a_model_that_cannot_be_read_is_a_problem_of_its_stream_alone(jobs: Path) -> None:
    spec_of(jobs)
    (jobs / "small" / "model.py").write_text(MODEL + "\nraise RuntimeError('odd')\n")
    with pytest.raises(SpecError, match=r"expected settings of stream small.*RuntimeError in .*model\.py"):
        spec_of(jobs)
    with pytest.raises(SettingsLoadError, match="several classes"):
        (jobs / "small" / "model.py").write_text(MODEL + "\nclass More(SmallSettings): pass\n")
        Project(jobs).settings("small")
    assert load_specs()[1] == []


def test_a_release_without_settings_of_its_own_is_checked_as_the_deployed_code(tmp_path: Path) -> None:
    (tmp_path / "spark_jobs" / "user_sessions").mkdir(parents=True)
    (tmp_path / "spark_jobs" / "user_sessions" / "model.py").write_text("STATE_SCHEMA_VERSION = 1\n")
    assert load_spec("user_sessions", jobs=tmp_path / "spark_jobs") == load_spec("user_sessions")


def test_a_stream_that_the_project_does_not_have_is_named() -> None:
    project = Project.imported()
    assert project.settings("absent") is None and project.settings("../user_sessions") is None
    with pytest.raises(NoSuchStreamError, match="expected its declaration in spark_jobs/absent"):
        project.declaration("absent")
    assert set(project.streams()) >= {"user_sessions", "raw_events"}
    assert project.declaration("user_sessions").outputs


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("\nimport json\njson.loads('{')\n", 3),
        ("\n\n\ndef of(:\n", 4),
        ("from stateward.project.durations import parse_duration\nparse_duration('soon')\n", 2),
    ],
)
def test_the_line_of_an_error_is_one_of_the_project(tmp_path: Path, code: str, line: int) -> None:
    file = tmp_path / "logic.py"
    file.write_text(code)
    with pytest.raises((ValueError, SyntaxError)) as caught:
        runpy.run_path(str(file))
    assert own_line(caught.value) == f"{file}:{line}"


def test_an_error_that_is_not_of_the_project_has_no_line_in_it() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        inside = error.with_traceback(error.__traceback__.tb_next if error.__traceback__ else None)
    assert own_line(inside) is None
