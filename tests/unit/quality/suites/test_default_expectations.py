"""What follows from a declaration, and how a suite takes its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from stateward.quality.privacy.personal import declared_table
from stateward.quality.suites.suite import Expectation, SuiteError, load_suite
from stateward.runtime.api.tables import Column, Table

SUITES = Path(__file__).resolve().parents[4] / "include" / "quality"
GOLDEN = Path(__file__).with_name("columns_and_keys.txt")
"""Names stand in results for good: a difference here breaks the history of an expectation."""
KINDS = {"expect_column_values_to_not_be_null": "not null", "expect_column_values_to_be_unique": "unique"}
ORDERS = Table(
    "orders",
    "One order",
    (
        Column("order_id", "string", "Identity", derived_from=("customer", "at")),
        Column("customer", "string", "Who ordered", personal=True),
        Column("at", "timestamp", "When"),
        Column("price", "decimal(38,9)", "What it costs"),
        Column("items", "array<string>", "What was ordered"),
    ),
    nullable=("price",),
)


def test_the_shipped_suites_expect_of_columns_and_keys_what_they_always_have() -> None:
    found = [line for path in sorted(SUITES.glob("*.yaml")) for line in described(path)]
    assert found == GOLDEN.read_text().splitlines()


def described(path: Path) -> list[str]:
    """The columns of a table in one line, and each expectation of a value or of a unique one in another."""
    suite = load_suite(path, declared_table("", path.stem))
    ordered = sorted(suite.expectations, key=lambda one: one.name)
    columns = [one.name for one in ordered if {"type_", "column_set"} & set(one.kwargs)]
    return [
        f"{suite.table}: {' '.join(columns)}",
        *(
            f"{suite.table}.{one.name}: {KINDS[one.type]} {one.column}, {one.severity}, {one.scope}:"
            f" {one.means}"
            for one in ordered
            if one.type in KINDS
        ),
    ]


def test_a_declared_table_without_a_suite_is_validated_by_its_declaration(tmp_path: Path) -> None:
    suite = load_suite(tmp_path / "orders.yaml", ORDERS)
    assert (suite.name, suite.table, suite.description) == ("orders", "orders", "One order")
    assert suite.is_appended
    by_name = {one.name: one for one in suite.expectations}
    assert list(by_name) == [
        "columns_are_those_of_the_contract",
        *(
            "order_id_is_text",
            "customer_is_text",
            "at_is_a_timestamp",
            "price_is_a_decimal",
            "items_is_a_list",
        ),
        *("order_id_is_present", "customer_is_present", "at_is_present", "items_is_present"),
        *("order_id_is_unique", "rows_are_only_added"),
    ]
    assert by_name["columns_are_those_of_the_contract"].kwargs["column_set"][0] == "order_id"
    assert {one.severity for one in suite.expectations} == {"critical"}
    assert by_name["order_id_is_unique"].scope == "keys"


def test_a_table_of_current_rows_has_one_for_each_key(tmp_path: Path) -> None:
    suite = load_suite(tmp_path / "orders.yaml", replace(ORDERS, current_by=("customer",)))
    assert [one.name for one in suite.expectations if "unique" in one.name] == ["customer_is_unique"]
    assert not suite.is_appended
    assert "rows_are_only_added" not in {one.name for one in suite.expectations}


def test_a_suite_replaces_a_default_by_its_name_or_by_its_column(tmp_path: Path) -> None:
    loaded = with_file(tmp_path, [entry("at_is_present", "customer"), entry("there_are_items", "items")])
    names = [one.name for one in loaded]
    assert "customer_is_present" not in names and "items_is_present" not in names
    assert [one.column for one in loaded if one.name == "at_is_present"] == ["customer"]
    assert [one.severity for one in loaded if one.name == "there_are_items"] == ["warn"]


def test_a_suite_says_in_its_own_words_what_a_default_means(tmp_path: Path) -> None:
    loaded = with_file(tmp_path, [], means={"at_is_present": "Every order has a time."})
    assert [one.means for one in loaded if one.name == "at_is_present"] == ["Every order has a time."]
    with pytest.raises(SuiteError, match=r"found \['price_is_present'\], which are none"):
        with_file(tmp_path, [], means={"price_is_present": "Every order has a price."})
    with pytest.raises(SuiteError, match="means is a mapping"):
        with_file(tmp_path, [], means=["at_is_present"])


def test_the_digest_is_of_what_is_expected_by_the_declaration_too(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    assert load_suite(file, ORDERS).digest == load_suite(file, replace(ORDERS)).digest
    assert load_suite(file, ORDERS).digest != load_suite(file, replace(ORDERS, nullable=())).digest


def test_a_nullable_column_is_one_of_the_table() -> None:
    with pytest.raises(ValueError, match="expected nullable to name columns of the table, found prize"):
        replace(ORDERS, nullable=("prize",))


def entry(name: str, column: str) -> dict[str, object]:
    kind = "expect_column_values_to_not_be_null"
    about = {"kwargs": {"column": column}, "severity": "warn", "means": "m", "remedy": "r"}
    return {"name": name, "type": kind, **about}


def with_file(folder: Path, entries: list[object], **head: object) -> tuple[Expectation, ...]:
    document = {"suite": "orders", "table": "orders", "description": "d", "expectations": entries, **head}
    (folder / "orders.yaml").write_text(yaml.safe_dump(document))
    return load_suite(folder / "orders.yaml", ORDERS).expectations
