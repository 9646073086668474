"""The file that lists notifiers: which messages each gets, and the problems of invalid entries."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from stateward.alerts.incident import Incident, Kind, Message, Topic
from stateward.alerts.incident_text import Words
from stateward.alerts.notifier_config import THE_FILE, load_notifiers
from stateward.project.settings import CHECKOUT, Settings

T0 = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
MAIL = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"


def message(kind: Kind = "opened", topic: Topic = "driver", stream: str = "user_sessions") -> Message:
    return Message(kind, T0, Incident("i", stream, topic, Words("t", "c", "l", "n"), T0, T0))


def written(folder: Path, text: str) -> Path:
    file = folder / "notifiers.yaml"
    file.write_text(text)
    return file


def test_as_shipped_nobody_is_told() -> None:
    found = load_notifiers(Settings().notifiers)
    assert (found.entries, found.problems) == ((), ())


def test_the_example_of_the_shipped_file_is_right(tmp_path: Path) -> None:
    lines = Settings().notifiers.read_text().splitlines()
    example = "\n".join(line[2:] for line in lines if line.startswith(("# - ", "#   ")))
    assert yaml.safe_load(example)
    found = load_notifiers(written(tmp_path, example))
    assert found.problems == ()
    assert [entry.label for entry in found.entries] == ["SmtpNotifier"]


def test_the_examples_of_the_page_are_right(tmp_path: Path) -> None:
    page = (CHECKOUT / "docs" / "alerts.md").read_text()
    examples = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    assert len(examples) == 3
    found = load_notifiers(written(tmp_path, "".join(examples)))
    assert found.problems == ()
    assert len(found.entries) == 4


@pytest.mark.parametrize(
    ("fields", "told", "expected"),
    [
        ("", message(), True),
        ("", message("escalated"), True),
        ("", message(topic="critical"), True),
        ("", message(topic="warn"), False),
        ("level: warn", message(topic="warn"), True),
        ("level: warn", message(), True),
        ("on: [opened]", message("opened"), True),
        ("on: [opened]", message("resolved"), False),
        ("streams: [user_sessions]", message(), True),
        ("streams: [fraud_watch]", message(), False),
        ('streams: ["user_*", fraud_watch]', message(), True),
    ],
)
def test_who_is_told(tmp_path: Path, fields: str, told: Message, expected: bool) -> None:
    found = load_notifiers(written(tmp_path, f"- class: {MAIL}\n  {fields}\n"))
    assert found.problems == ()
    assert found.names(told) == (["SmtpNotifier"] if expected else [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "- name: mail\n",
            ":1: [0].class: expected this field, found nothing. Add `class`",
        ),
        (f"- clas: {MAIL}\n", "found an unknown field. Rename it to `class`."),
        (
            f"- class: {MAIL}\n  klass: 3\n",
            ":2: [0].klass: expected one of class, name, kwargs, on, streams, level, found an unknown field.",
        ),
        (
            f"- class: {MAIL}\n- class: x.Y\n  level: high\n",
            ":3: [1].level: expected one of 'warn' or 'critical', found 'high'. Set `level`",
        ),
        (
            f"- class: {MAIL}\n  on: [open]\n",
            ":2: [0].on[0]: expected one of 'opened', 'escalated', 'resolved' or 'acted', found 'open'.",
        ),
        ("- class: mail\n", ":1: [0].class: expected text of the form"),
        ("- mail\n", ":1: [0]: expected "),
        ("class: x.Y\n", ":1: (file): expected a list of notifiers, found a dict. Begin each notifier with"),
        (
            f"- class: {MAIL}\n- class: {MAIL}\n",
            ":2: [1].name: expected each name once, found 'SmtpNotifier'",
        ),
        ("- class: [\n", "expected YAML"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    file = written(tmp_path, text)
    found = [str(problem) for problem in load_notifiers(file).problems]
    assert any(problem.startswith(str(file)) and says in problem for problem in found), found
    assert "schema" not in str(found)


def test_a_mistake_costs_the_others_nothing_and_is_looked_at_again(tmp_path: Path) -> None:
    found = load_notifiers(written(tmp_path, f"- class: {MAIL}\n- class: x.Y\n  level: high\n"))
    assert found.names(message()) == ["SmtpNotifier", THE_FILE]


def test_a_missing_file_is_a_mistake(tmp_path: Path) -> None:
    found = load_notifiers(tmp_path / "none.yaml")
    assert found.names(message()) == [THE_FILE]
    assert "a readable file" in str(found.problems[0])


def test_two_of_a_class_are_told_apart_by_name(tmp_path: Path) -> None:
    text = f"- class: {MAIL}\n- {{class: {MAIL}, name: night}}\n"
    found = load_notifiers(written(tmp_path, text))
    assert found.names(message()) == ["SmtpNotifier", "night"]
    entry = found.entry("night")
    assert entry is not None
    assert entry.class_path == MAIL
