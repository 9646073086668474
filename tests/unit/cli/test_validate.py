"""`stateward validate`: what it says of a project with one thing wrong, by its own processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stateward.cli.streams.validate import declaration_problems, other_problems, run
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import SpecError, load_spec, load_specs
from stateward.quality.suites.project_check import _sources
from tests.support.streams.matches import JOB as MATCHES
from tests.support.streams.purchases import JOB as PURCHASES


@pytest.fixture
def project(tmp_path: Path) -> Settings:
    """A copy of this repository's project that a test may break."""
    for folder in ("spark_jobs", "include"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder)
    return Settings(project=tmp_path)


def replaced(file: Path, old: str, new: str) -> int:
    """Replace a text in a file, and return its line."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def found(settings: Settings) -> list[str]:
    specs, problems = load_specs(settings.streams)
    return [*map(str, problems), *other_problems(settings), *declaration_problems(settings, specs)]


def test_a_project_that_is_right_has_no_problem(project: Settings) -> None:
    assert found(project) == []


def test_a_connection_that_was_not_checked_is_noted_and_no_error(
    project: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATEWARD_PROJECT", str(project.project))
    monkeypatch.setenv("STATEWARD_HOME", str(project.project / "home"))
    monkeypatch.setenv("AIRFLOW_HOME", str(project.project / "airflow"))
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    run()
    [note, valid] = capsys.readouterr().out.splitlines()
    assert note.startswith("Not checked: the Airflow connection spark_default.")
    assert valid.endswith("streams are valid: YAML, declarations and suites.")


def test_an_unknown_field_is_named_with_file_line_and_remedy(project: Settings) -> None:
    file = project.streams / "user_sessions.yaml"
    line = replaced(file, "owner:", "ownr:")
    problems = "\n".join(found(project))
    assert f"{file}:{line}: ownr" in problems
    assert "owner" in problems


def test_a_table_that_the_stream_does_not_have_is_named(project: Settings) -> None:
    file = project.streams / "user_sessions.yaml"
    replaced(file, "tables: [sessions]", "tables: [sessions, sesions]")
    [problem] = [one for one in found(project) if "sesions" in one]
    assert str(file) in problem and "current_sessions" in problem


def test_a_declaration_that_cannot_be_imported_is_a_problem_of_its_stream(project: Settings) -> None:
    file = project.jobs / "fraud_watch" / "machine.py"
    file.write_text("1/0\n")
    [problem] = found(project)
    assert problem == (
        f"{file}:1: stream fraud_watch: its declaration cannot be imported: ZeroDivisionError: division by"
        " zero. Correct the code."
    )


def test_an_error_of_syntax_is_named_with_its_line(project: Settings) -> None:
    file = project.jobs / "fraud_watch" / "machine.py"
    file.write_text("\ndef of(:\n")
    [problem] = found(project)
    assert problem.startswith(
        f"{file}:2: stream fraud_watch: its declaration cannot be imported: SyntaxError"
    )


def test_a_stream_with_an_invalid_yaml_is_not_said_to_have_none(project: Settings) -> None:
    file = project.streams / "user_sessions.yaml"
    line = replaced(file, "stream: user_sessions", "stream: user_session")
    [problem] = found(project)
    assert problem.startswith(f"{file}:{line}: stream: expected the name of the file")


def test_tables_of_quality_are_named_with_their_line(project: Settings) -> None:
    file = project.streams / "user_sessions.yaml"
    line = replaced(file, "quality: {tables: [sessions]", "quality: {tables: [sesions]")
    [problem] = found(project)
    assert problem.startswith(
        f"{file}:{line}: quality.tables: expected some of the tables sessions, each once, found ['sesions']"
    )


def test_a_key_that_is_no_field_is_named(project: Settings) -> None:
    file = project.jobs / "user_sessions" / "declaration.py"
    replaced(file, "key=", 'key=Field("absent", "text") if True else ')
    [problem] = found(project)
    assert problem.startswith(f"{file}: stream user_sessions: expected the key absent among its fields")


def test_a_logic_without_a_function_is_named(project: Settings) -> None:
    file = project.jobs / "user_sessions" / "declaration.py"
    replaced(file, "JOB = ", "def _no_logic(config: object) -> object:\n    return object()\n\n\nJOB = ")
    text = file.read_text()
    logic = next(line for line in text.splitlines() if line.strip().startswith("logic="))
    file.write_text(text.replace(logic, "    logic=_no_logic,"))
    [problem] = found(project)
    assert problem == (
        f"{file}: stream user_sessions: expected object to have apply, deadline and expire, found no apply,"
        " deadline, expire. Add it to the logic."
    )


def test_a_folder_that_is_no_project_is_named_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Call the command in the folder of a project"):
        load_specs(tmp_path / "include" / "streams")


def test_the_streams_of_the_project_are_named_for_one_that_is_not_there(project: Settings) -> None:
    with pytest.raises(SpecError, match=r"The project's streams are: .*user_sessions") as caught:
        load_spec("user_session", project.streams)
    assert "stateward new stream user_session" in str(caught.value)


def test_lookups_are_those_of_the_declaration() -> None:
    given = {"file": "purchases.yaml", "topics": ["a"], "lookups": []}
    [problem] = _sources("purchases", given, PURCHASES)
    assert problem.startswith("purchases.yaml: lookups: expected merchants, which the declaration of stream")
    assert list(_sources("purchases", {**given, "lookups": ["merchants"]}, PURCHASES)) == []


def test_a_topic_is_missing_for_an_input() -> None:
    given = {"file": "matches.yaml", "topics": ["a"], "lookups": []}
    assert list(_sources("matches", given, MATCHES)) == [
        "matches.yaml: source.topics: expected a topic for each of payments, logins, found a. Name them in"
        " this order."
    ]
    assert list(_sources("matches", {**given, "topics": ["a", "b"]}, MATCHES)) == []


def test_an_entry_of_a_suite_is_named_with_its_line(project: Settings) -> None:
    file = project.streams.parent / "quality" / "sessions.yaml"
    line = replaced(file, "severity: critical", "severity: grave")
    [problem] = found(project)
    assert problem.startswith(f"{file}:")
    assert 0 <= line - int(problem.removeprefix(f"{file}:").partition(":")[0]) < 8
    assert "severity is one of ['critical', 'warn'], found 'grave'" in problem


def test_a_folder_without_a_yaml_is_found(project: Settings) -> None:
    (project.streams / "action_counts.yaml").unlink()
    assert any("expected a YAML of the stream action_counts, found none" in one for one in found(project))


def test_a_field_that_cannot_be_a_column_of_spark_is_named_with_a_remedy(project: Settings) -> None:
    file = project.jobs / "event_windows" / "declaration.py"
    replaced(file, "        EVENT_TIME,\n", '        EVENT_TIME,\n        Field("payload", "object"),\n')
    [problem] = found(project)
    assert "stream event_windows" in problem and "field payload: expected a column of Spark" in problem
    assert "path='payload.id'" in problem


def test_two_fields_at_one_place_and_an_unknown_unit_are_named(project: Settings) -> None:
    file = project.jobs / "user_sessions" / "declaration.py"
    replaced(
        file, "        EVENT_TIME,\n", '        EVENT_TIME,\n        Field("u", "text", path="event_id"),\n'
    )
    other = project.jobs / "user_activity" / "declaration.py"
    replaced(other, "        EVENT_TIME,\n", '        Field("event_time", "time", unit="ns"),\n')
    problems = found(project)
    assert any("stream user_sessions" in one and "found u at event_id" in one for one in problems)
    assert any("stream user_activity" in one and "found 'ns'" in one for one in problems)
