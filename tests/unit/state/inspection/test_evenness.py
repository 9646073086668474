"""The largest key and the largest partition of an inspected state, by the limits of a running stream."""

from __future__ import annotations

import pytest

from stateward.contract.measures import MEASURES
from stateward.state.inspection.evenness import Judged, judged
from stateward.state.reader.measures import LargeKey, Load, Variable

KB, MB = 1000, 1_000_000


def store(
    largest: int = 0, keys: int | None = None, size: int | None = None, partitions: tuple[int, ...] = ()
) -> Variable:
    """A store whose largest key, number of keys, their size and that of its partitions are these."""
    return Variable(
        0,
        "symmetricHashJoin",
        "left-keyWithIndexToValue",
        "the rows",
        5 * (keys or 0),
        0,
        sum(partitions),
        "stored",
        tuple(Load(number, 1, 0, size) for number, size in enumerate(partitions)),
        largest=(LargeKey("busy", 0, None, 40, largest),) if largest else (),
        keys=keys,
        json_bytes=size,
    )


def found(*stores: Variable, **limits: dict[str, float | None]) -> dict[str, Judged]:
    return {one.name: one for one in judged(stores, limits)}


@pytest.mark.parametrize(
    ("times", "level"), [(100, "ok"), (101, "warn"), (1000, "warn"), (1001, "critical")], ids=str
)
def test_the_largest_key_of_any_store_is_judged_by_the_measures_limits(times: int, level: str) -> None:
    even = store(largest=200 * KB, keys=11, size=2200 * KB)
    one = found(even, store(largest=times * KB, keys=11, size=(times + 10) * KB))["largest_key"]
    assert (one.value, one.warn, one.critical) == (times, 100, 1000)
    assert (one.level, one.is_above) == (level, level != "ok")
    assert one.text.startswith(f"the largest key takes {times:,.1f} times the others' mean")
    assert (MEASURES["largest_key"].cause in one.text) == one.is_above


def test_a_small_key_or_a_store_of_unknown_keys_is_not_compared() -> None:
    one = found(store(largest=99 * KB, keys=100, size=100 * KB), store(largest=MB), store())["largest_key"]
    assert (one.value, one.level, one.text) == (None, "ok", "")


def test_partitions_are_those_of_all_stores_and_empty_ones_are_left_out() -> None:
    stores = store(partitions=(30 * MB, 3 * MB, 0, 2 * MB)), store(partitions=(10 * MB, 1 * MB, 0, 8 * MB))
    one = found(*stores)["partition_imbalance"]
    assert (one.value, one.level) == (4, "warn")
    assert found(store(partitions=(MB, 5 * MB)))["partition_imbalance"].value is None


def test_the_streams_own_limits_count() -> None:
    stores = (store(partitions=(40 * MB, 10 * MB)),)
    assert (
        found(*stores, partition_imbalance={"warn": 5, "critical": None})["partition_imbalance"].level == "ok"
    )
    assert (
        found(*stores, partition_imbalance={"warn": 2, "critical": 3})["partition_imbalance"].level
        == "critical"
    )
    never = found(*stores, partition_imbalance={"warn": None, "critical": None})["partition_imbalance"]
    assert (never.level, never.value) == ("ok", 4)
