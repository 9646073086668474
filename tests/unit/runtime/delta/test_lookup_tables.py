"""Tables of lookups: what is read of a version, and each reason why it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from stateward.contract.requests import LookupConfig
from stateward.contract.stream_settings import Lookup
from stateward.runtime.delta import lookup_tables
from stateward.runtime.delta.lookup_tables import (
    LookupGoneError,
    LookupInvalidError,
    LookupTable,
    TableVersion,
    configured_tables,
    newest,
    opened,
)


class Merchant(NamedTuple):
    """What is taken of a row."""

    category: str | None
    risk: int | None


LOOKUP = Lookup("merchants", "id", Merchant)


@pytest.fixture(autouse=True)
def nothing_in_memory() -> Iterator[None]:
    lookup_tables.rows_at.cache_clear()
    yield
    lookup_tables.rows_at.cache_clear()


@pytest.fixture
def source(tmp_path: Path) -> LookupTable:
    return table_of(tmp_path)


def table_of(folder: Path, **changes: Any) -> LookupTable:
    config = LookupConfig(f"file://{folder}/merchants", "", changes)
    (found,) = configured_tables("payments", (LOOKUP,), {"merchants": config})
    return found


def write(source: LookupTable, **columns: list[Any]) -> TableVersion:
    write_deltalake(source.uri, pa.table(columns), mode="overwrite", schema_mode="overwrite")
    return newest(source)


def rows(source: LookupTable, at: TableVersion) -> dict[Any, Any]:
    return dict(opened((source,), {"merchants": at})["merchants"])


def test_each_version_has_its_own_rows(source: LookupTable) -> None:
    first = write(source, id=["a", "b"], category=["x", None], risk=[1, 2], other=[0, 0])
    second = write(source, id=["a"], category=["y"], risk=[3])

    assert rows(source, first) == {"a": Merchant("x", 1), "b": Merchant(None, 2)}
    assert rows(source, second) == {"a": Merchant("y", 3)}
    assert opened((source,), {})["merchants"] == rows(source, second), "a plan without a version"


def test_what_the_logic_gets_cannot_be_changed(source: LookupTable) -> None:
    found: Any = opened((source,), {"merchants": write(source, id=["a"], category=["x"], risk=[1])})
    for rows in (found, found["merchants"]):
        with pytest.raises(TypeError, match="does not support item assignment"):
            rows["a"] = None


def test_of_rows_with_one_key_every_reader_takes_the_same(source: LookupTable) -> None:
    order = [("x", 2), ("x", None), (None, 9), ("x", 1)]
    for begin in range(len(order)):
        turned = order[begin:] + order[:begin]
        at = write(source, id=["a"] * 4, category=[c for c, _ in turned], risk=[r for _, r in turned])
        assert rows(source, at) == {"a": Merchant("x", 2)}


def test_a_row_without_a_key_is_left_out(source: LookupTable) -> None:
    at = write(source, id=[None, "a"], category=["x", "y"], risk=[1, 2])
    assert rows(source, at) == {"a": Merchant("y", 2)}


def test_times_dates_and_decimals_are_plain_values(tmp_path: Path) -> None:
    class Plain(NamedTuple):
        since_ms: int | None
        day: str | None
        rate: str | None

    lookup = Lookup("merchants", "id", Plain)
    config = LookupConfig(f"file://{tmp_path}/merchants", "number", {"since_ms": "since_at"})
    (source,) = configured_tables("payments", (lookup,), {"merchants": config})
    moment = datetime(2024, 3, 1, 12, 0, 0, 999, UTC)
    at = write(source, number=[7], since_at=[moment], day=[date(2024, 2, 29)], rate=[Decimal("0.50")])

    assert rows(source, at) == {7: Plain(1_709_294_400_000, "2024-02-29", "0.50")}


def test_a_table_that_is_not_there_is_named_with_its_setting(source: LookupTable) -> None:
    with pytest.raises(LookupInvalidError) as caught:
        newest(source)
    assert f"expected a Delta table at {source.uri}" in str(caught.value)
    assert "`lookups.merchants.table`" in str(caught.value)


def test_a_version_whose_files_are_gone_is_named_whole(source: LookupTable) -> None:
    first = write(source, id=["a"], category=["x"], risk=[1])
    write(source, id=["a"], category=["y"], risk=[2])
    DeltaTable(source.uri).vacuum(0, enforce_retention_duration=False, dry_run=False)

    with pytest.raises(LookupGoneError, match=r"files were removed, as VACUUM does.*planned again") as caught:
        rows(source, first)
    for part in ("stream payments, lookup merchants", "version 0", source.uri, first.table_id):
        assert part in str(caught.value)


def test_a_version_that_the_log_has_lost_is_named_too(source: LookupTable, tmp_path: Path) -> None:
    first = write(source, id=["a"], category=["x"], risk=[1])
    write(source, id=["a"], category=["y"], risk=[2])
    DeltaTable(source.uri).create_checkpoint()
    (tmp_path / "merchants/_delta_log" / f"{0:020}.json").unlink()

    with pytest.raises(LookupGoneError, match="log no longer has it"):
        rows(source, first)


def test_another_table_in_its_place_is_not_taken_for_it(source: LookupTable) -> None:
    at = write(source, id=["a"], category=["x"], risk=[1])

    with pytest.raises(LookupGoneError, match=f"found another table there, {at.table_id}"):
        rows(source, at._replace(table_id="before"))


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"id": ["a"], "category": ["x"]}, "expected the columns risk .* found id, category"),
        ({"id": ["a"], "category": ["x"], "risk": ["high"]}, "field risk, of type int, found string"),
        ({"id": ["a"], "category": [1], "risk": [1]}, "field category, of type str, found int64"),
    ],
)
def test_other_columns_than_those_declared_are_refused(
    columns: dict[str, list[Any]], found: str, source: LookupTable
) -> None:
    at = write(source, **columns)
    with pytest.raises(LookupInvalidError, match=found):
        rows(source, at)


def test_a_column_may_have_another_name(tmp_path: Path) -> None:
    source = table_of(tmp_path, risk="risk_class")
    assert rows(source, write(source, id=["a"], category=["x"], risk_class=[4])) == {"a": Merchant("x", 4)}


def test_a_configuration_with_other_lookups_is_refused() -> None:
    with pytest.raises(LookupInvalidError, match=r"expected the lookups merchants, found none\. Correct"):
        configured_tables("payments", (LOOKUP,), {})
    with pytest.raises(LookupInvalidError, match="expected the lookups none, found merchants"):
        configured_tables("payments", (), {"merchants": LookupConfig("", "", {})})


def test_a_field_that_no_column_can_have_or_that_may_not_be_null_is_refused() -> None:
    class Never(NamedTuple):
        category: str

    class Nested(NamedTuple):
        categories: list[str] | None

    for row in (Never, Nested):
        with pytest.raises(ValueError, match=r"lookup merchants, field .*: expected one of str, int, "):
            Lookup("merchants", "id", row)
