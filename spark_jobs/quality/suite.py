"""An expectation suite as data: the YAML file that people edit, checked and typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SEVERITIES = ("critical", "warning", "info")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_REQUIRED = ("name", "type", "kwargs", "severity", "means", "remedy")


class SuiteError(ValueError):
    """A suite file cannot be used; the text names file, entry and remedy."""


@dataclass(frozen=True)
class Expectation:
    """One statement about the table.

    Attributes:
        name: what people call it; unique in its suite.
        type: the expectation type of Great Expectations.
        kwargs: arguments of that type.
        severity: `critical`, `warning` or `info`; how urgent a failure is. Any failure fails the validation.
        means: what holds when it passes.
        remedy: what to do when it fails.
    """

    name: str
    type: str
    kwargs: dict[str, Any]
    severity: str
    means: str
    remedy: str

    @property
    def column(self) -> str | None:
        """The column it is about, both of a pair, or None for the whole table."""
        if "column_A" in self.kwargs:
            return f"{self.kwargs['column_A']}, {self.kwargs['column_B']}"
        column = self.kwargs.get("column")
        return str(column) if column is not None else None


@dataclass(frozen=True)
class Suite:
    """The expectations about one table."""

    name: str
    table: str
    description: str
    expectations: tuple[Expectation, ...]


def load_suite(path: Path) -> Suite:
    """Read and check a suite file.

    Raises:
        SuiteError: the file is missing, is not YAML, or an entry is incomplete.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SuiteError(
            f"{path}: no such suite. Add it, or correct quality.suite in the stream's YAML."
        ) from None
    except yaml.YAMLError as error:
        raise SuiteError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("expectations"), list):
        raise SuiteError(f"{path}: expected `suite`, `table`, `description` and a list `expectations`.")
    missing = [key for key in ("suite", "table", "description") if not isinstance(document.get(key), str)]
    if missing or not document["expectations"]:
        raise SuiteError(
            f"{path}: expected a text for {missing or 'every field'} and at least one expectation."
        )
    expectations = tuple(_expectation(path, entry) for entry in document["expectations"])
    names = [expectation.name for expectation in expectations]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SuiteError(f"{path}: names are unique in a suite, found twice: {twice}. Rename one of each.")
    return Suite(document["suite"], document["table"], document["description"], expectations)


def _expectation(path: Path, entry: object) -> Expectation:
    if not isinstance(entry, dict) or set(entry) != set(_REQUIRED):
        found = sorted(entry) if isinstance(entry, dict) else entry
        raise SuiteError(f"{path}: an expectation has the fields {list(_REQUIRED)}, found {found}.")
    where = f"{path}: expectation {entry['name']!r}"
    if not _NAME.fullmatch(str(entry["name"])):
        raise SuiteError(f"{where}: a name has lower-case letters, digits and underscores. Rename it.")
    if entry["severity"] not in SEVERITIES:
        raise SuiteError(f"{where}: severity is one of {list(SEVERITIES)}, found {entry['severity']!r}.")
    if not isinstance(entry["kwargs"], dict):
        raise SuiteError(f"{where}: kwargs are a mapping, found {entry['kwargs']!r}.")
    for field in ("type", "means", "remedy"):
        if not isinstance(entry[field], str) or not entry[field].strip():
            raise SuiteError(f"{where}: {field} is a text, found {entry[field]!r}.")
    return Expectation(**entry)
