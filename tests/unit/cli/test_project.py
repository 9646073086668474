"""`stateward init` and `stateward new stream`: what they write, and that it is right as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stateward.cli.errors import run_command
from stateward.cli.project.init import compose_file, init
from stateward.cli.project.new import NewStreamError, new_stream
from stateward.cli.project.project_files import NoProjectError
from stateward.project.settings import CHECKOUT
from stateward.project.spec import load_spec


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "My Streams"
    monkeypatch.setenv("STATEWARD_PROJECT", str(folder))
    init(folder)
    return folder


def add(project: Path, name: str = "refunds", key: str = "order_id") -> set[str]:
    return set(map(str, new_stream(project, name, topic="payments", key=key).new))


def test_a_project_is_laid_out_as_this_repository_is(project: Path) -> None:
    there = {path.name for path in project.iterdir()}
    assert there >= {"dags", "include", "spark_jobs", "docker-compose.yaml", "requirements.txt", "Dockerfile"}
    # Git keeps no empty folder, and a clone without it is no project.
    assert (project / "include" / "streams" / ".gitkeep").is_file()
    for name in ("streams.py", "streams_yaml_check.py"):
        mine, ours = ((root / "dags" / name).read_text().partition("\n\n")[2] for root in (project, CHECKOUT))
        assert mine == ours


def test_its_image_has_no_tools_of_tests(project: Path) -> None:
    assert "dev" not in (project / "requirements.txt").read_text().replace("requirements-dev", "")
    assert "stateward[dev]" in (project / "requirements-dev.txt").read_text()
    copied = re.findall(r"^COPY .*requirements\S*", (project / "Dockerfile").read_text(), re.MULTILINE)
    assert copied == ["COPY --chown=stateward requirements.txt"]


def test_its_services_are_those_of_this_repository_under_its_name(project: Path) -> None:
    mine, ours = (yaml.safe_load((root / "docker-compose.yaml").read_text()) for root in (project, CHECKOUT))
    assert (mine["name"], mine["services"]["scheduler"]["image"]) == ("my-streams", "my-streams")
    assert mine["services"].keys() == ours["services"].keys()
    assert mine["x-airflow-environment"] == ours["x-airflow-environment"]
    assert "stateward:" not in compose_file("x").split("services:")[0].split("image: ")[1].splitlines()[0]


def test_a_file_that_is_there_is_kept_and_one_that_differs_is_named(project: Path) -> None:
    (project / "requirements.txt").write_text("mine\n")
    (project / "Dockerfile").unlink()
    again = init(project)
    assert (list(map(str, again.new)), list(map(str, again.differ))) == (["Dockerfile"], ["requirements.txt"])
    assert (project / "requirements.txt").read_text() == "mine\n"


def test_a_stream_has_six_files_and_a_valid_yaml(project: Path) -> None:
    assert add(project) == {
        "include/streams/refunds.yaml",
        "spark_jobs/refunds/__init__.py",
        "spark_jobs/refunds/declaration.py",
        "spark_jobs/refunds/logic.py",
        "spark_jobs/refunds/model.py",
        "tests/streams/refunds/test_refunds.py",
    }
    spec = load_spec("refunds", project / "include" / "streams", project / "spark_jobs")
    assert spec.logic.config()["quiet_ms"] == 30 * 60 * 1000
    assert list(spec.source.names) == ["payments"]
    schema = (project / "include" / "streams" / "stream.schema.json").read_text()
    assert "quiet" in schema and "user_sessions" not in schema


def test_its_tests_pass_and_its_code_is_formatted_as_the_project_says(project: Path) -> None:
    add(project)
    add(project, "card_tests", "card_id")
    # This library without the streams of its own repository.
    (project / "lib").mkdir()
    (project / "lib" / "stateward").symlink_to(CHECKOUT / "stateward")
    environment = {**os.environ, "PYTHONPATH": str(project / "lib")}
    for command in (
        ["pytest", "-q", "-p", "no:cacheprovider"],
        ["ruff", "check"],
        ["ruff", "format", "--check"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command, *(["--exclude", "lib"] if command[0] == "ruff" else [])],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("Refunds", "k", "as the name of the stream lower-case letters"),
        ("../x", "k", "as the name of the stream lower-case letters"),
        ("refunds", "a b", "as the key of the stream lower-case letters"),
        ("taken", "k", "stream taken: expected none of this name"),
    ],
)
def test_a_stream_that_cannot_be_is_refused(project: Path, name: str, key: str, message: str) -> None:
    add(project, "taken")
    with pytest.raises(NewStreamError, match=message):
        add(project, name, key)


def test_another_stream_whose_model_cannot_be_read_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(project)
    (project / "spark_jobs" / "refunds" / "model.py").write_text("import no_such_module\n")
    with pytest.raises(SystemExit) as ended:
        run_command("stateward", lambda: add(project, "returns"))
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "refunds/model.py" in said and "no_such_module" in said and "Traceback" not in said


def test_without_a_project_it_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NoProjectError, match="stateward init FOLDER"):
        add(tmp_path)
