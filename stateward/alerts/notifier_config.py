"""The YAML file that lists notifiers, as validated values; see docs/alerts.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from stateward.alerts.incident import Kind, Message
from stateward.control.health.health import Level
from stateward.project.spec_fields import Part
from stateward.project.spec_problems import Problem, YamlDocument, problems_of, read_yaml

THE_FILE = "(file)"
"""Stands for the notifiers of invalid entries, until the file is corrected."""

_CLASS = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$"
_ALL: list[Kind] = ["opened", "escalated", "resolved", "acted"]
_EVERY = ["*"]


class Declared(Part):
    """One notifier, and the messages that it gets.

    Attributes:
        class_path: Import path of its class, a subclass of Airflow's `BaseNotifier`.
        name: Its name in logs and documents; by default that of the class.
        kwargs: Arguments of its class. Template fields may use `incident`.
        on: Kinds of messages that it gets.
        streams: Names of streams; `*` matches any characters.
        level: `critical`, or `warn` for warnings as well.
    """

    class_path: Annotated[str, Field(alias="class", pattern=_CLASS)]
    name: Annotated[str, Field(min_length=1)] = ""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    on: Annotated[list[Kind], Field(min_length=1)] = _ALL
    streams: Annotated[list[str], Field(min_length=1)] = _EVERY
    level: Level = "critical"

    @model_validator(mode="before")
    @classmethod
    def _on_is_a_word(cls, data: object) -> object:
        # YAML 1.1, which PyYAML reads, takes `on` for true.
        if not isinstance(data, dict):
            return data
        return {"on" if key is True else key: value for key, value in data.items()}

    @property
    def label(self) -> str:
        """Its name."""
        return self.name or self.class_path.rpartition(".")[2]

    def wants(self, message: Message) -> bool:
        """Whether it gets this message."""
        incident = message.incident
        return (
            message.kind in self.on
            and (self.level == "warn" or incident.level == "critical" or message.kind == "acted")
            and any(fnmatchcase(incident.stream, pattern) for pattern in self.streams)
        )


@dataclass(frozen=True)
class Notifiers:
    """The content of the file.

    Attributes:
        entries: Valid entries.
        problems: Problems of the others.
    """

    entries: tuple[Declared, ...] = ()
    problems: tuple[Problem, ...] = ()

    def names(self, message: Message) -> Sequence[str]:
        """Names of the notifiers that get a message; `THE_FILE` too, if entries of the file are invalid."""
        return [
            *(entry.label for entry in self.entries if entry.wants(message)),
            *([THE_FILE] if self.problems else []),
        ]

    def entry(self, name: str) -> Declared | None:
        """The notifier of a name."""
        return next((entry for entry in self.entries if entry.label == name), None)


def load_notifiers(file: Path) -> Notifiers:
    """Read the file without ever raising. One bad entry never affects the others.

    Args:
        file: A YAML list; an empty file is an empty list.
    """
    document = read_yaml(file)
    if isinstance(document, Problem):
        return Notifiers(problems=(document,))
    if document.data is None:
        return Notifiers()
    if not isinstance(document.data, list):
        found = f"a {type(document.data).__name__}"
        remedy = "Begin each notifier with `- class: ...`; docs/alerts.md has examples."
        problem = Problem(str(file), 1, "(file)", "a list of notifiers", found, remedy)
        return Notifiers(problems=(problem,))
    entries: list[Declared] = []
    problems: list[Problem] = []
    for index, data in enumerate(document.data):
        try:
            entry = Declared.model_validate(data)
        except ValidationError as error:
            problems.extend(_problems(error, document, index))
            continue
        if any(entry.label == other.label for other in entries):
            problems.append(_twice(document, index, entry.label))
        else:
            entries.append(entry)
    return Notifiers(tuple(entries), tuple(problems))


def _problems(error: ValidationError, document: YamlDocument, index: int) -> list[Problem]:
    lines = {at[1:]: line for at, line in document.lines.items() if at[:1] == (index,)}
    data = document.data[index] if isinstance(document.data, list) else None
    found = problems_of(error, YamlDocument(document.file, data, lines), Declared, {})
    return [
        replace(
            one,
            field=f"[{index}]" if one.field == "(file)" else f"[{index}].{one.field}",
            remedy=one.remedy
            if "stream.schema" not in one.remedy
            else "Change it; docs/alerts.md has examples.",
        )
        for one in found
    ]


def _twice(document: YamlDocument, index: int, name: str) -> Problem:
    remedy = f"Add `name: ...` to one of them, other than {name}."
    line = document.line_of((index,))
    return Problem(
        document.file, line, f"[{index}].name", "each name once", f"{name!r} a second time", remedy
    )
