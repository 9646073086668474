"""The size of a state from its buckets: of this driver's batches, and of the drivers before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateward.contract.stream_status import Status, status_from
from stateward.runtime.keyed.state_sizes import StateSizes
from stateward.runtime.telemetry.operator_metrics import operator_sizes
from tests.unit.runtime.telemetry.test_documents import status_file
from tests.unit.runtime.telemetry.test_measures import operator

TOTALS = ("state_keys", "live_bytes", "largest_key_bytes", "partition_bytes")


def sizes_of(generation: int = 1, buckets: int = 4, *, new: bool = False, before: Any = None) -> StateSizes:
    sizes = StateSizes(buckets, new=new)
    sizes.carry(generation, before)
    return sizes


def test_totals_are_known_once_every_bucket_is() -> None:
    sizes = sizes_of()
    sizes.note({0: (1, 10, 900, 500), 1: (0, 2, 60, 30)})
    sizes.note({2: (1, 0, 0, 0)})
    assert [sizes.fields[name] for name in TOTALS] == [None] * 4
    assert sizes.fields["buckets"]["unknown"] == 1
    sizes.note({3: (1, 1, 40, 40), 1: (0, 3, 100, 45)})
    assert sizes.fields == {
        "buckets": {
            "generation": 1,
            "unknown": 0,
            "sizes": {"0": [1, 10, 900, 500], "1": [0, 3, 100, 45], "3": [1, 1, 40, 40]},
        },
        "state_keys": 14,
        "live_bytes": 1040,
        "largest_key_bytes": 500,
        "partition_bytes": {"0": 100, "1": 940},
    }


def test_a_new_checkpoint_is_known_from_its_first_batch() -> None:
    sizes = sizes_of(new=True)
    assert (sizes.fields["state_keys"], sizes.fields["partition_bytes"]) == (0, {})
    sizes.note({2: (1, 7, 70, 10)})
    assert (sizes.fields["state_keys"], sizes.fields["live_bytes"]) == (7, 70)


def test_the_next_driver_continues_with_what_the_last_one_knew(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/s.json"
    first = sizes_of(new=True)
    first.note({2: (1, 7, 70, 10), 3: (0, 1, 9, 9)})
    status_file(uri).update(generation=1, **first.fields)
    # One that is refused, or ends before it has read the state, keeps them for the next one.
    status_file(uri, "refused").update(state="refused")
    before = status_file(uri, "next").document["buckets"]
    assert json.loads((tmp_path / "s.json").read_text())["buckets"] == before

    second = sizes_of(before=before)
    assert second.fields == first.fields
    second.note({2: (1, 8, 80, 10)})
    assert second.fields["state_keys"] == 9


def test_of_a_partly_known_state_the_known_buckets_are_carried() -> None:
    first = sizes_of()
    first.note({0: (1, 10, 900, 500)})
    second = sizes_of(before=first.fields["buckets"])
    assert second.fields["buckets"] == first.fields["buckets"]
    second.note(dict.fromkeys((1, 2, 3), (0, 1, 10, 10)))
    assert second.fields["state_keys"] == 13


@pytest.mark.parametrize(
    "before",
    [
        None,
        {"generation": 2, "unknown": 0, "sizes": {"0": [1, 10, 900, 500]}},
        {"generation": 1, "unknown": 0, "sizes": {"a": [1, 10, 900, 500]}},
        {"generation": 1, "sizes": {"0": [1]}},
        "of tomorrow",
    ],
    ids=["the release before", "another checkpoint", "no number", "too short", "another type"],
)
def test_what_is_of_no_use_is_unknown(before: Any) -> None:
    fields = sizes_of(before=before).fields
    assert fields["buckets"] == {"generation": 1, "unknown": 4, "sizes": {}}
    assert fields["state_keys"] is None


def test_operators_of_sparks_own_have_rows_and_files() -> None:
    assert operator_sizes([operator(), operator()]) == {"state_keys": 2 * 1753, "live_bytes": 10_000}
    files_unknown = operator_sizes([operator(), operator(customMetrics={})])
    assert files_unknown == {"state_keys": 2 * 1753, "live_bytes": None}
    no_snapshot = operator(customMetrics={"rocksdbSstFileSize": 0})
    assert operator_sizes([no_snapshot])["live_bytes"] is None
    assert operator_sizes([]) == {"state_keys": None, "live_bytes": None}


def status(**fields: Any) -> Status:
    times = {"started_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    found, errors = status_from({"stream": "s", "run_id": "r", "state": "running", **times, **fields})
    assert errors == []
    return found


def test_a_large_key_is_compared_with_the_mean_of_the_others() -> None:
    large = status(state_keys=101, live_bytes=220_000, largest_key_bytes=200_000)
    assert large.largest_key_ratio == 200_000 / 200
    assert large.bytes_per_key == 220_000 / 101
    assert status(state_keys=101, live_bytes=119_000, largest_key_bytes=99_000).largest_key_ratio is None
    assert status(state_keys=1, live_bytes=200_000, largest_key_bytes=200_000).largest_key_ratio is None
    assert status(state_keys=0, live_bytes=0, largest_key_bytes=0).bytes_per_key is None
    assert (status().bytes_per_key, status().largest_key_ratio) == (None, None)


@pytest.mark.parametrize(
    ("sizes_mb", "expected"),
    [
        ([20, 5], 4),
        ([6, 6, 30, 6], 5),
        ([6, 7, 8], 8 / 7),
        ([20], None),
        ([5, 1], None),
        ([], None),
    ],
    ids=["two", "one above", "even", "one", "small", "none"],
)
def test_the_largest_partition_is_compared_with_the_median(
    sizes_mb: list[int], expected: float | None
) -> None:
    sizes = {str(number): mb * 1_000_000 for number, mb in enumerate(sizes_mb)}
    assert status(partition_bytes=sizes).partition_imbalance == expected
