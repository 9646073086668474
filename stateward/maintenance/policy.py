"""How each table is maintained: the YAML file of `Settings.maintenance` as validated values."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from stateward.contract.names import DEAD_LETTERS, LATE_EVENTS, QUARANTINE, RAW_EVENTS
from stateward.project import durations
from stateward.project.spec_fields import Count, Duration, Part, Span
from stateward.project.spec_problems import Problem, YamlDocument, problems_of, read_yaml
from stateward.project.unexpected_value import UnexpectedValueError

# A file that is being written is in no commit yet, and looks like a leftover.
_SHORTEST = timedelta(hours=1)
_AGE = "max_age"
AGED = (RAW_EVENTS, DEAD_LETTERS, LATE_EVENTS, QUARANTINE)
"""The tables whose rows may have an age: they hold raw records or their contents."""

_REMEDY = "Correct it; docs/maintenance.md says what each field means."


class PolicyError(ValueError):
    """The file cannot be used; the text lists every problem."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))


def _an_hour(value: timedelta) -> timedelta:
    if value < _SHORTEST:
        raise UnexpectedValueError(
            "at least 1h: what is being written or read now must not look like a leftover"
        )
    return value


def _a_day(value: timedelta) -> timedelta:
    if value < timedelta(days=1):
        raise UnexpectedValueError("at least 1d: rows are removed by the day")
    return value


class Policy(Part):
    """The maintenance policy of one table.

    Attributes:
        history: How long every version can be read.
        validations: How long a validated version can be read.
        small_files: Number of small files from which a compaction runs.
        target_mb: Size of the files that a compaction writes, MiB; a file below a quarter of it is small.
        max_age: How long rows with raw records stay; None for ever. Of other tables it means nothing.
    """

    history: Annotated[Duration, AfterValidator(_an_hour)] = timedelta(days=2)
    validations: Span = timedelta(days=30)
    small_files: Annotated[int, Field(ge=2)] = 16
    target_mb: Count = 128
    max_age: Annotated[Duration, AfterValidator(_a_day)] | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The table's Delta properties.

        Only maintenance removes log entries, because it knows the references of savepoints. A writer would
        remove them by age.
        """
        kept = f"interval {durations.to_ms(self.history) // 1000} seconds"
        return {
            "delta.deletedFileRetentionDuration": kept,
            "delta.logRetentionDuration": kept,
            "delta.enableExpiredLogCleanup": "false",
        }


class Policies(Part):
    """The file: defaults of all tables, and overrides by table."""

    defaults: Policy = Policy()
    tables: dict[str, dict[str, Any]] = Field(default_factory=dict)

    def of(self, table: str) -> Policy:
        """The policy of one table."""
        own = self.tables.get(table, {})
        return Policy.model_validate({**self.defaults.model_dump(), **own})


def load_policies(file: Path) -> Policies:
    """Read the file.

    Raises:
        PolicyError: It is missing or invalid; the text names file, line and field.
    """
    document = read_yaml(file)
    if isinstance(document, Problem):
        raise PolicyError([document])
    return _parsed(document)


def _parsed(document: YamlDocument) -> Policies:
    data = {} if document.data is None else document.data
    try:
        policies = Policies.model_validate(data)
    except ValidationError as error:
        raise PolicyError(_problems(error, document, Policies)) from None
    for name, own in policies.tables.items():
        if own.get(_AGE) is not None and name not in AGED:
            raise PolicyError([_not_aged(document, name)])
        try:
            policies.of(name)
        except ValidationError as error:
            lines = {at[2:]: line for at, line in document.lines.items() if at[:2] == ("tables", name)}
            part = YamlDocument(document.file, own, lines)
            found = [
                replace(one, field=f"tables.{name}.{one.field}") for one in _problems(error, part, Policy)
            ]
            raise PolicyError(found) from None
    return policies


def _not_aged(document: YamlDocument, table: str) -> Problem:
    place = ("tables", table, _AGE)
    return Problem(
        document.file,
        document.line_of(place),
        ".".join(place),
        f"{_AGE} of one of {', '.join(sorted(AGED))}, which hold raw records",
        f"that of {table}",
        _REMEDY,
    )


def _problems(error: ValidationError, document: YamlDocument, model: type[Part]) -> list[Problem]:
    return [replace(one, remedy=_REMEDY) for one in problems_of(error, document, model, {})]
