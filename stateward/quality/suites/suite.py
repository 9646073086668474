"""An expectation suite as data: the YAML file that people edit, checked and typed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from stateward.quality.suites.baseline import Baseline, BaselineError, parse_baseline
from stateward.quality.suites.default_expectations import (
    ColumnTypeError,
    declared_columns,
    of_columns,
    of_rows,
)

if TYPE_CHECKING:
    from stateward.runtime.api.tables import Table

SEVERITIES = ("critical", "warn")
ROWS, KEYS, TABLE = "rows", "keys", "table"
SCOPES = (ROWS, KEYS, TABLE)
APPEND, UPSERT = "append", "upsert"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_REQUIRED = {"name", "type", "kwargs", "severity", "means", "remedy"}
_OPTIONAL = {"scope", "baseline"}
_HEAD = {"suite", "table", "description", "changes", "reads", "columns", "means", "expectations"}
_QUERY = "unexpected_rows_expectation"


class SuiteError(ValueError):
    """A suite file cannot be used; the text names file, entry and remedy."""


@dataclass(frozen=True)
class Expectation:
    """One statement about the table.

    Attributes:
        name: unique in its suite.
        type: the expectation type of Great Expectations.
        kwargs: arguments of that type.
        severity: `critical` or `warn`; how urgent a failure is. Any failure fails the validation.
        means: what holds when it passes.
        remedy: what to do when it fails.
        scope: which rows it covers: `rows`, those that the range added; `table`, all rows; or `keys`, all
            rows whose value in its column is one that the range added.
        baseline: where its arguments come from, when they come from the table's own history.
    """

    name: str
    type: str
    kwargs: dict[str, Any]
    severity: str
    means: str
    remedy: str
    scope: str = ROWS
    baseline: Baseline | None = None

    @property
    def column(self) -> str | None:
        """The column it is about, both of a pair, or None for the whole table."""
        if "column_A" in self.kwargs:
            return f"{self.kwargs['column_A']}, {self.kwargs['column_B']}"
        column = self.kwargs.get("column")
        return str(column) if column is not None else None

    @property
    def query(self) -> str | None:
        """Its query for the rows that should not exist, if it is one."""
        return str(self.kwargs["unexpected_rows_query"]) if self.type == _QUERY else None


@dataclass(frozen=True)
class Suite:
    """The expectations about one table.

    Attributes:
        is_appended: whether rows are only ever added; otherwise each validation is about all rows.
        reads: other tables that its queries name.
    """

    name: str
    table: str
    description: str
    expectations: tuple[Expectation, ...]
    is_appended: bool = True
    reads: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Hash of its expectations, which changes with any of them."""
        return hashlib.sha256(repr(self.expectations).encode()).hexdigest()[:12]


def load_suite(path: Path, declared: Table | None = None, *, table: str | None = None) -> Suite:
    """Read and check a suite file, and add what follows from the table's declaration.

    An expectation in the file takes the place of a default one with its name, or with its type and column.

    Args:
        path: The file. A declared table needs none.
        declared: The table's declaration, if it has one.
        table: The table that is validated; None if it is the suite's.

    Raises:
        SuiteError: The file is not YAML, is for another table, an entry is incomplete, or there is neither
            file nor declaration.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = yaml.safe_load(text)
    except FileNotFoundError:
        if declared is not None:
            document = {"suite": declared.name, "table": declared.name, "description": declared.description}
            return _suite(path, {**document, "expectations": []}, declared, [])
        raise SuiteError(
            f"{path}: no such suite. Add it, or take the table out of quality.tables in the stream's YAML."
        ) from None
    except yaml.YAMLError as error:
        raise SuiteError(f"{path}: not valid YAML: {error}") from error
    _check_head(path, document)
    if table not in (None, document["table"]):
        raise SuiteError(
            f"{path}: suite {document['suite']} is for table {document['table']}, not {table}."
            " Correct `table`."
        )
    if not document["expectations"] and declared is None:
        raise SuiteError(f"{path}: a table without a declaration needs at least one expectation.")
    return _suite(path, document, declared, _lines(text))


def _lines(text: str) -> list[int]:
    """The line on which each entry of `expectations` begins."""
    head = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(head, yaml.MappingNode)  # its form has been checked
    return [
        entry.start_mark.line + 1
        for name, node in head.value
        if name.value == "expectations"
        for entry in node.value
    ]


def _suite(path: Path, document: dict[str, Any], declared: Table | None, lines: list[int]) -> Suite:
    entries = zip(document["expectations"], lines, strict=True)
    own = [_expectation(f"{path}:{line}", entry) for entry, line in entries]
    names = [one.name for one in own]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SuiteError(f"{path}: names are unique in a suite, found twice: {twice}. Rename one of each.")
    replaced = {(one.type, one.column) for one in own if one.query is None}
    by_default = UPSERT if declared is not None and declared.current_by else APPEND
    is_appended = document.get("changes", by_default) == APPEND
    defaults = {
        one.name: one
        for one in _defaults(path, document.get("columns"), declared, is_appended=is_appended)
        if one.name not in names and (one.type, one.column) not in replaced
    }
    means = document.get("means", {})
    if unknown := sorted(set(means) - set(defaults)):
        raise SuiteError(
            f"{path}: `means` has sentences for default expectations, found {unknown}, which are none."
            f" Name some of {sorted(defaults)}."
        )
    return Suite(
        name=document["suite"],
        table=document["table"],
        description=document["description"],
        expectations=(
            *(replace(one, means=means.get(name, one.means)) for name, one in defaults.items()),
            *own,
        ),
        is_appended=is_appended,
        reads=tuple(document.get("reads", ())),
    )


def _check_head(path: Path, document: Any) -> None:
    if not isinstance(document, dict) or not isinstance(document.get("expectations"), list):
        raise SuiteError(f"{path}: expected `suite`, `table`, `description` and a list `expectations`.")
    missing = [key for key in ("suite", "table", "description") if not isinstance(document.get(key), str)]
    if missing:
        raise SuiteError(f"{path}: expected a text for {missing}.")
    if unknown := sorted(set(document) - _HEAD):
        raise SuiteError(f"{path}: a suite has the fields {sorted(_HEAD)}, found {unknown}.")
    if document.get("changes", APPEND) not in (APPEND, UPSERT):
        raise SuiteError(f"{path}: changes is `{APPEND}` or `{UPSERT}`, found {document['changes']!r}.")
    means = document.get("means", {})
    if not isinstance(means, dict) or not all(isinstance(text, str) for text in means.values()):
        raise SuiteError(f"{path}: means is a mapping of names to sentences, found {means!r}.")
    reads = document.get("reads", [])
    if not isinstance(reads, list) or not all(_NAME.fullmatch(str(name)) for name in reads):
        raise SuiteError(f"{path}: reads is a list of names of tables, found {reads!r}.")


def _defaults(path: Path, columns: object, declared: Table | None, *, is_appended: bool) -> list[Expectation]:
    entries = []
    if columns is None and declared is not None:
        columns = declared_columns(declared)
    try:
        if columns is not None:
            entries += of_columns(columns)
    except ColumnTypeError as error:
        raise SuiteError(f"{path}: {error}") from None
    if declared is not None:
        entries += of_rows(declared, is_appended=is_appended)
    return [Expectation(**entry) for entry in entries]


def _expectation(at: str, entry: object) -> Expectation:
    if not isinstance(entry, dict) or not _REQUIRED <= set(entry) <= _REQUIRED | _OPTIONAL:
        found = sorted(entry) if isinstance(entry, dict) else entry
        raise SuiteError(
            f"{at}: an expectation has the fields {sorted(_REQUIRED)}, and may have {sorted(_OPTIONAL)};"
            f" found {found}."
        )
    where = f"{at}: expectation {entry['name']!r}"
    if not _NAME.fullmatch(str(entry["name"])):
        raise SuiteError(f"{where}: a name has lower-case letters, digits and underscores. Rename it.")
    if entry["severity"] not in SEVERITIES:
        raise SuiteError(f"{where}: severity is one of {list(SEVERITIES)}, found {entry['severity']!r}.")
    if not isinstance(entry["kwargs"], dict):
        raise SuiteError(f"{where}: kwargs are a mapping, found {entry['kwargs']!r}.")
    for name in ("type", "means", "remedy"):
        if not isinstance(entry[name], str) or not entry[name].strip():
            raise SuiteError(f"{where}: {name} is a text, found {entry[name]!r}.")
    scope = entry.get("scope", ROWS)
    if scope not in SCOPES or (scope == KEYS and "column" not in entry["kwargs"]):
        raise SuiteError(
            f"{where}: scope is one of {list(SCOPES)}, `{KEYS}` only with a column; found {scope!r}."
        )
    try:
        baseline = parse_baseline(entry["baseline"], entry["type"]) if "baseline" in entry else None
    except BaselineError as error:
        raise SuiteError(f"{where}: {error}") from None
    return Expectation(**{**entry, "baseline": baseline})
