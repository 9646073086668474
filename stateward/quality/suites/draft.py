"""Write a suite for a table from a profile of its rows, as a draft for a person to edit.

    python stateward/quality/suites/draft.py --table-uri URI --table NAME --file FILE

Exit codes: 0 written, 1 there is no such table, or the file already exists.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if __name__ == "__main__":
    # Python puts this file's folder on the path, whose modules would hide others of the same name.
    del sys.path[0]

from stateward.quality.privacy.personal import declared_table
from stateward.quality.suites.default_expectations import ONLY_ADDED, TYPES, of_rows
from stateward.quality.suites.table_profile import Profile, profile

if TYPE_CHECKING:
    from stateward.runtime.api.tables import Table

_HEAD = """\
# A draft, from {rows} rows of version {version}: it states what holds for them, not what must hold. Keep what
# readers of the table rely on, write what it means and what to do, and remove the rest (docs/quality.md).
"""
_TO_WRITE = "Write here what to do when it fails."


class DraftError(RuntimeError):
    """A draft cannot be written; the text says why."""


def draft(found: Profile, declared: Table | None = None) -> str:
    """Return the text of a suite with every expectation that holds for the profile.

    Args:
        found: The profile.
        declared: The table's declaration, if it has one; what follows from it is left out.
    """
    columns = {column.name: column.type for column in found.columns if column.type in TYPES}
    defaults = {entry["name"] for entry in of_rows(declared, is_appended=True)} if declared else ()
    document = {
        "suite": found.table,
        "table": found.table,
        "description": "Write here what one row is, and which stream writes it.",
        **({} if declared else {"columns": columns}),
        "expectations": [
            entry
            for entry in (
                *_present(found),
                *_unique(found),
                *_in_set(found),
                *_at_least(found),
                *_in_order(found),
                {**ONLY_ADDED, "severity": "warn", "remedy": _TO_WRITE},
                _usual_rows(),
            )
            if entry["name"] not in defaults
        ],
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    return _HEAD.format(rows=found.rows, version=found.version) + text


def write_draft(table_uri: str, table: str, file: Path) -> int:
    """Write the draft for a table to a new file; return the number of rows it is based on.

    Raises:
        DraftError: there is no such table, it has no row, or the file already exists.
    """
    from deltalake import DeltaTable

    if file.exists():
        raise DraftError(
            f"{table}: {file} already exists, and a draft never overwrites a file. Move it away."
        )
    if not DeltaTable.is_deltatable(table_uri):
        raise DraftError(f"{table}: expected a Delta table at {table_uri}, found none. Start its stream.")
    found = profile(table_uri, table)
    if not found.rows:
        raise DraftError(f"{table}: the table has no row to draft from. Wait for its first batch.")
    with file.open("x", encoding="utf-8") as output:
        output.write(draft(found, declared_table("", table)))
    return found.rows


def _entry(name: str, kind: str, kwargs: dict[str, Any], means: str, **more: Any) -> dict[str, Any]:
    named = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_0123456789")
    entry = {"name": named, "type": kind, "kwargs": kwargs, **more}
    return {**entry, "severity": "warn", "means": means, "remedy": _TO_WRITE}


def _present(found: Profile) -> list[dict[str, Any]]:
    return [
        _entry(
            f"{column.name}_is_present",
            "expect_column_values_to_not_be_null",
            {"column": column.name},
            f"Every row has a {column.name}.",
        )
        for column in found.columns
        if not column.nulls
    ]


def _unique(found: Profile) -> list[dict[str, Any]]:
    return [
        _entry(
            f"{column.name}_is_unique",
            "expect_column_values_to_be_unique",
            {"column": column.name},
            f"No two rows have the same {column.name}.",
            scope="keys",
        )
        for column in found.columns
        if column.is_unique
    ]


def _in_set(found: Profile) -> list[dict[str, Any]]:
    return [
        _entry(
            f"{column.name}_is_known",
            "expect_column_values_to_be_in_set",
            {"column": column.name, "value_set": list(column.values)},
            f"{column.name} is one of these.",
        )
        for column in found.columns
        if column.values
    ]


def _at_least(found: Profile) -> list[dict[str, Any]]:
    return [
        _entry(
            f"{column.name}_is_not_negative",
            "expect_column_values_to_be_between",
            {"column": column.name, "min_value": 0},
            f"{column.name} is not negative.",
        )
        for column in found.columns
        if column.minimum is not None and column.minimum >= 0
    ]


def _in_order(found: Profile) -> list[dict[str, Any]]:
    return [
        _entry(
            f"{later}_is_not_before_{earlier}",
            "expect_column_pair_values_a_to_be_greater_than_b",
            {"column_A": later, "column_B": earlier, "or_equal": True},
            f"{earlier} comes first.",
        )
        for earlier, later in found.ordered
    ]


def _usual_rows() -> dict[str, Any]:
    baseline = {"metric": "rows_per_hour", "hours": 1, "at_least": 0.2, "history": 10}
    kind, means = "expect_table_row_count_to_be_between", "The table gets at least a fifth of the usual rows."
    return _entry("rows_per_hour_are_as_usual", kind, {}, means, baseline=baseline)


def main(argv: list[str]) -> int:
    """Write the draft and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table-uri", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--file", required=True, type=Path)
    given = parser.parse_args(argv)
    try:
        rows = write_draft(given.table_uri, given.table, given.file)
    except DraftError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{given.table}: {given.file} is a draft from {rows} rows; edit it before you use it\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
