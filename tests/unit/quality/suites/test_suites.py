"""Every suite that is shipped can be used, and an unusable one says why."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from stateward.contract.names import SHARED_TABLES
from stateward.project.spec import StreamSpec, load_specs
from stateward.quality.privacy.personal import declared_table
from stateward.quality.quarantine.failing_rows import failing_rows_query
from stateward.quality.suites.suite import SuiteError, load_suite
from stateward.runtime.api.record_fields import Reason

SUITES = Path(__file__).resolve().parents[4] / "include" / "quality"
ENTRY = {
    "name": "id_is_present",
    "type": "expect_column_values_to_not_be_null",
    "kwargs": {"column": "id"},
    "severity": "critical",
    "means": "Every row has an id.",
    "remedy": "Look at the source.",
}


def write(folder: Path, *entries: object, **changes: object) -> Path:
    path = folder / "suite.yaml"
    head = {"suite": "s", "table": "t", "description": "d", "expectations": list(entries)}
    path.write_text(yaml.safe_dump(head | changes))
    return path


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_suite_is_well_formed_and_named_after_its_file(path: Path) -> None:
    suite = load_suite(path, declared_table("", path.stem))
    assert suite.name == path.stem
    assert len(suite.expectations) > 5


def test_the_suite_of_dead_letters_knows_every_reason() -> None:
    document = yaml.safe_load((SUITES / "dead_letters.yaml").read_text(encoding="utf-8"))
    [known] = [entry for entry in document["expectations"] if entry["name"] == "reason_is_known"]
    assert set(known["kwargs"]["value_set"]) == set(Reason)


def test_messages_name_settings_that_a_yaml_has() -> None:
    named = {
        (file, setting)
        for folder in ("stateward", "spark_jobs")
        for file in (SUITES.parents[1] / folder).rglob("*.py")
        for text in strings_of(file)
        for setting in re.findall(r"\b([a-z_]+\.[a-z_]+)\b in (?:its|the stream's) YAML", text)
    }
    assert ("quality", "tables") in {tuple(setting.split(".")) for _, setting in named}
    for file, setting in named:
        section, key = setting.split(".")
        model = StreamSpec.model_fields[section].annotation
        models = [model, *get_args(model)]
        known = {name for one in models for name in getattr(one, "model_fields", {})}
        assert key in known, f"{file}: no YAML has {setting}"


def strings_of(file: Path) -> list[str]:
    """The texts of a module, those of f-strings with a gap where a value comes."""
    texts = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            texts.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


def test_every_table_of_every_stream_has_its_suite() -> None:
    specs = [spec for spec in load_specs()[0] if spec.quality]
    assert specs
    named = [table for spec in specs if spec.quality for table in spec.quality.tables]
    assert sorted(named) == sorted(table for spec in specs for table in spec.tables)
    for table in (*named, *SHARED_TABLES):
        assert load_suite(SUITES / f"{table}.yaml", declared_table("", table)).table == table


def test_the_sessions_suite_covers_every_column_of_its_contract() -> None:
    suite = load_suite(SUITES / "sessions.yaml", declared_table("", "sessions"))
    by_name = {item.name: item for item in suite.expectations}
    columns = set(by_name["columns_are_those_of_the_contract"].kwargs["column_set"])
    rules = [item for item in suite.expectations[1:] if "type_" not in item.kwargs]
    named = " ".join(f"{item.column} {item.kwargs}" for item in rules)
    assert {column for column in columns if column not in named} == {"last_event_type"}  # may be anything


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"severity": "fatal"}, "severity is one of"),
        ({"name": "Is Present"}, "lower-case"),
        ({"kwargs": ["column"]}, "kwargs are a mapping"),
        ({"remedy": " "}, "remedy is a text"),
        ({"scope": "all"}, "scope is one of"),
        ({"scope": "keys", "kwargs": {}}, "only with a column"),
        ({"baseline": {"metric": "rows_per_hour"}}, "have a baseline"),
    ],
)
def test_a_bad_entry_names_the_file_and_the_field(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    path = write(tmp_path, ENTRY | change)
    with pytest.raises(SuiteError, match=said) as raised:
        load_suite(path)
    assert str(path) in str(raised.value)


def test_an_incomplete_a_doubled_and_a_missing_suite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="has the fields"):
        load_suite(write(tmp_path, {"name": "x"}))
    with pytest.raises(SuiteError, match=r"found twice: \['id_is_present'\]"):
        load_suite(write(tmp_path, ENTRY, ENTRY))
    with pytest.raises(SuiteError, match="at least one expectation"):
        load_suite(write(tmp_path))
    with pytest.raises(SuiteError, match="no such suite"):
        load_suite(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("kind", "kwargs", "condition"),
    [
        (
            "expect_column_values_to_be_in_set",
            {"column": "c", "value_set": ["a'b", 1]},
            "`c` NOT IN ('a\\'b', 1)",
        ),
        ("expect_column_values_to_be_between", {"column": "c", "min_value": 0}, "`c` < 0"),
        (
            "expect_column_values_to_be_between",
            {"column": "c", "min_value": 0, "max_value": 9, "strict_max": True},
            "`c` < 0 OR `c` >= 9",
        ),
        (
            "expect_column_pair_values_a_to_be_greater_than_b",
            {"column_A": "a", "column_B": "b", "or_equal": True},
            "NOT (`a` >= `b`)",
        ),
    ],
)
def test_failing_rows_are_those_that_break_the_statement(
    kind: str, kwargs: dict[str, object], condition: str
) -> None:
    query = failing_rows_query(kind, kwargs)
    assert query == f"SELECT * FROM {{batch}} WHERE {condition}"


def test_a_statement_about_the_whole_table_has_no_failing_rows() -> None:
    assert failing_rows_query("expect_table_row_count_to_be_between", {"min_value": 1}) is None
