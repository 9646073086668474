"""Rows of a table as initial states: by column names, and by a stream's function."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.ingest.packed_format import bucket_of
from stateward.runtime.watermark.admission import Limits
from stateward.state.migration.initial_state import SeedConverter, SeededRow, missing_columns, plain
from stateward.state.reader.key_evaluator import KeyEvaluator
from tests.support.streams.orders import IDLE_MS, OrderLogic, OrderV3, StateV2, StateV3

AT = datetime(2024, 3, 1, 12, tzinfo=UTC)
AT_MS = 1_709_294_400_000
ROW = {"customer": 19, "first_ms": AT, "last_ms": AT, "orders": "2", "units": 7, "cents": 5, "coupons": 0}


def seeded(row: Mapping[str, Any], **how: Any) -> SeededRow:
    evaluator = KeyEvaluator(OrderLogic(3), StateV3, OrderV3, Limits(100, max_held=100))
    settings = {"columns": ("customer",), "separator": ":", "seed": None, "buckets": 16}
    (made,) = SeedConverter(evaluator, **{**settings, **how}).rows([row])
    return made


def of_total(key: str, row: Mapping[str, Any]) -> StateV3 | None:
    if row["closed"]:
        return None
    units, cents = row["total"].split(".")
    return StateV3(row["at"], row["at"], 1, int(units), int(cents), 0)


def test_columns_with_the_names_of_the_state_become_a_state() -> None:
    made = seeded({**ROW, "remark": "ignored"})
    assert (made.key, made.bucket, made.wake_ms) == ("19", bucket_of("19", 16), AT_MS + IDLE_MS)
    assert json.loads(made.state or b"") == {
        "state": {"first_ms": AT_MS, "last_ms": AT_MS, "orders": 2, "units": 7, "cents": 5, "coupons": 0}
    }
    assert (made.wrong, made.skipped) == (None, False)


def test_a_key_of_another_stream_has_no_state_here() -> None:
    below = KeyFilter("customers below 20", lambda key: int(key) < 20)
    assert seeded(ROW, only=(below,)).state is not None
    made = seeded(ROW, only=(below.others(),))
    assert (made.state, made.wrong) == (None, "its key belongs to another stream")


def test_a_function_of_the_stream_takes_a_table_of_any_shape() -> None:
    row = {"customer": "19", "shop": 3, "at": AT, "total": Decimal("4.05"), "closed": False}
    made = seeded(row, seed=of_total, columns=("customer", "shop"))
    assert (made.key, made.wrong) == ("19:3", None)
    assert json.loads(made.state or b"")["state"]["cents"] == 5
    assert seeded({**row, "closed": True}, seed=of_total).skipped


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"customer": None}, "no key in customer"),
        ({"customer": ""}, "no key in customer"),
        ({"units": None}, "ValidationError: Expected `int`, got `null`"),
        ({"orders": "two"}, "ValidationError: Expected `int`, got `str`"),
    ],
)
def test_a_row_that_is_no_state_has_a_reason(changes: dict[str, Any], wrong: str) -> None:
    made = seeded({**ROW, **changes})
    assert (made.wrong, made.state) == (wrong, None)


def test_a_function_that_fails_or_returns_another_type_has_a_reason() -> None:
    row = {"customer": "19", "at": AT, "total": "4", "closed": False}
    assert seeded(row, seed=of_total).wrong == "ValueError", "the text may contain values of the row"
    text = StateV3("now", 2, 3, 4, 5, 6)  # type: ignore[arg-type]  # wrong on purpose
    assert (seeded(row, seed=lambda key, found: text).wrong or "").startswith(
        "ValidationError: Expected `int`"
    )


class WithDefault(NamedTuple):
    """A state with an optional field."""

    units: int
    cents: int = 0


def test_fields_with_defaults_need_no_column() -> None:
    assert missing_columns(WithDefault, ["units"]) == []
    assert missing_columns(WithDefault, ["cents", "x"]) == ["units"]
    assert missing_columns(StateV2, ["first_ms", "last_ms", "orders"]) == ["total"]


def test_times_are_milliseconds() -> None:
    assert plain(AT) == plain(AT.replace(tzinfo=None)) == AT_MS
    assert plain(date(2024, 3, 1)) == AT_MS - 12 * 3_600_000
    assert plain(datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)) == -1
    assert [plain(value) for value in (None, "x", 1.5, Decimal("1.10"))] == [None, "x", 1.5, "1.10"]
