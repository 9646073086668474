"""What is held back, where a row came from, and what may be read: the parts without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateward.contract import storage
from stateward.quality.quarantine.batch_offsets import BatchOffsets
from stateward.quality.quarantine.event_search import Wanted, matcher, wanted_of
from stateward.quality.quarantine.plain_row_hash import hasher_of, row_hash
from stateward.quality.quarantine.provenance import Origins
from stateward.quality.quarantine.quarantine_rules import quarantined
from stateward.quality.quarantine.valid_rows import NotValidError, require_valid
from stateward.runtime.api.record_fields import EVENT_TIME, Bounds, Field
from stateward.runtime.watermark.topic_partitions import Topics

SUITES = Path(__file__).resolve().parents[4] / "include" / "quality"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "suite": "s",
        "table_id": "t",
        "from_version": 3,
        "table_version": 5,
        "run_id": "a",
        "name": "n",
        "severity": "critical",
        "row_hash": "h",
        "quarantined_at": NOW,
    } | changes


def validation(**changes: Any) -> dict[str, Any]:
    later = NOW + timedelta(minutes=1)
    return {
        "suite": "s",
        "table_id": "t",
        "from_version": 3,
        "table_version": 5,
        "run_id": "b",
        "is_range": True,
        "validated_at": later,
    } | changes


@pytest.mark.parametrize(
    ("changes", "releases"),
    [
        ({}, True),
        ({"from_version": 0, "table_version": 9}, True),
        ({"from_version": 4}, False),
        ({"table_version": 4}, False),
        ({"from_version": 9, "table_version": 9, "is_range": False}, True),
        ({"suite": "another"}, False),
        ({"validated_at": NOW}, False),
        ({"table_id": "created again"}, False),
        ({"table_id": "created again", "from_version": 0, "table_version": 1}, True),
    ],
)
def test_a_row_is_released_by_a_newer_validation_of_all_that_it_was_found_in(
    changes: dict[str, Any], releases: bool
) -> None:
    assert quarantined([entry()], [validation(**changes)]) == (set() if releases else {"h"})


def test_a_row_stays_when_it_is_found_again_or_the_expectation_was_not_evaluated() -> None:
    found_again = entry(run_id="b", quarantined_at=NOW + timedelta(minutes=1))
    assert quarantined([entry(), found_again], [validation()]) == {"h"}
    not_evaluated = entry(run_id="b", row_hash=None)
    assert quarantined([entry(), not_evaluated], [validation()]) == {"h"}
    assert quarantined([entry(), entry(run_id="b", row_hash=None, name="other")], [validation()]) == set()
    assert quarantined([entry(severity="warn")], []) == set()


def test_a_row_is_hashed_as_in_the_example_of_sparks_manual() -> None:
    # https://spark.apache.org/docs/latest/api/sql/: SELECT xxhash64('Spark', array(123), 2)
    kinds = (pa.string(), pa.list_(pa.int32()), pa.int32())
    in_full = row_hash(("Spark", [123], 2), map(hasher_of, kinds), seed=17)
    assert int(in_full[:16], 16) == 5602566077635097486


GENERATION = "00000000-0000-0000-0000-000000000001"


def checkpoint(folder: Path, ends: dict[int, int]) -> BatchOffsets:
    """A generation that began at offset 5, and in it batches and where each ends."""
    uri = f"file://{folder}/g0002"
    storage.write_json(f"{uri}/metadata", {"id": GENERATION})
    storage.write_json(f"{uri}/sources/0/0", {"events": {"0": 5}})
    for batch, end in ends.items():
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0})
        document = {"events": {"0": end, "1": 3}, "ticks": {"0": 1}}
        storage.write_text(f"{uri}/offsets/{batch}", f"v1\n{head}\n{json.dumps(document)}")
    storage.write_json(f"file://{folder}/current.json", {})
    return BatchOffsets(f"file://{folder}", ["events"])


def test_the_offsets_of_a_batch_come_from_the_checkpoint_of_its_generation(tmp_path: Path) -> None:
    batches = checkpoint(tmp_path, {0: 9, 1: 12, 8: 40})
    assert batches.of(GENERATION, 0) == {"events": {"0": [5, 9], "1": [0, 3]}}
    assert batches.of(GENERATION, 1) == {"events": {"0": [9, 12]}}
    assert batches.of(GENERATION, 8) is None  # the one before is no longer on record
    assert batches.of(GENERATION, 9) is None
    assert batches.of("another", 0) is None
    assert BatchOffsets(f"file://{tmp_path}/none").of(GENERATION, 0) is None


def test_a_file_is_traced_to_the_commit_that_added_it_also_before_the_range(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for number in range(3):
        write_deltalake(uri, pa.table({"n": [number]}), mode="append")
    from deltalake import DeltaTable

    files = {path.rpartition("/")[2]: path for path in DeltaTable(uri).file_uris()}
    from stateward.quality.tables.table_log import read_commits

    newest = read_commits(uri, "t", 2, 2) or []
    told = Origins(uri, "t", newest, BatchOffsets(f"file://{tmp_path}/none"), lambda rows: {}).of_files(
        [*files.values(), "file:///gone.parquet"]
    )
    found = {path: json.loads(text) for path, text in told.items()}
    assert sorted(one.get("version", -1) for one in found.values()) == [-1, 0, 1, 2]
    assert "no longer holds" in found["file:///gone.parquet"]["says"]
    assert all(
        one["says"].startswith("written by another program: WRITE")
        for one in found.values()
        if "version" in one
    )


def test_events_are_those_that_the_row_names_and_those_in_its_time() -> None:
    row = {
        "row_hash": "h",
        "user_id": "ann",
        "started_at": NOW,
        "ended_at": NOW - timedelta(minutes=1),  # the defect may be just that
        "evidence": ["e9", None],
        "n": 3,
    }
    wanted = wanted_of(row, "user_id")
    assert wanted == Wanted("h", "ann", _ms(NOW) - 60_000, _ms(NOW), frozenset({"e9"}))
    assert wanted_of(row | {"user_id": None}, "user_id") is None

    fields = (Field("event_id", "text"), Field("user_id", "text"), EVENT_TIME)
    bounds = Bounds(0, 3_600_000, 1_000_000)
    records = [
        record(1, "ann", "e1", NOW),
        record(2, "bob", "e2", NOW),
        record(3, "ann", "e3", NOW + timedelta(seconds=1)),
        record(4, "ann", "e9", NOW + timedelta(hours=1)),
        (0, 5, _ms(NOW), b"no json"),
    ]
    names = ["partition", "offset", "record_ms", "value"]
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*records, strict=True)], names)
    topics = Topics(("t",))
    [found] = matcher(fields, bounds, lambda parsed: str(parsed.user_id), [wanted], topics)(iter([batch]))
    assert found["offset"].to_pylist() == [1, 4]
    [none] = matcher(fields, bounds, lambda parsed: "another", [wanted], topics)(iter([batch]))
    assert none.num_rows == 0


def record(offset: int, user: str, event_id: str, at: datetime) -> tuple[int, int, int, bytes]:
    value = {"event_id": event_id, "user_id": user, "event_time": at.isoformat()}
    return 0, offset, _ms(at), json.dumps(value).encode()


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def tables(folder: Path, *validations: dict[str, Any], failed: dict[str, str]) -> str:
    uri = f"file://{folder}/tables"
    same = {"stream": "s", "table": "t"}
    rows = [same | one | {"docs_path": "a page.html"} for one in validations]
    write_deltalake(f"{uri}/quality_validations", pa.Table.from_pylist(rows), mode="append")
    results = [
        same | {"run_id": "b", "name": name, "severity": severity, "success": severity == "fine"}
        for name, severity in {**failed, "holds": "fine"}.items()
    ]
    write_deltalake(f"{uri}/quality_results", pa.Table.from_pylist(results), mode="append")
    return uri


def test_a_table_may_be_read_up_to_its_newest_version_without_a_critical_failure(tmp_path: Path) -> None:
    older = validation(run_id="a", table_version=2)
    uri = tables(tmp_path, older, validation(), failed={"few_rows": "warn"})
    found = require_valid(uri, "s", "t", now=NOW, max_age=timedelta(hours=1))
    assert (found.version, found.warnings, found.docs_path) == (5, ("few_rows",), "a page.html")
    with pytest.raises(NotValidError, match=r"expected t to be validated within 1:00:00, found .* 3 to 5"):
        require_valid(uri, "s", "t", now=NOW + timedelta(hours=2), max_age=timedelta(hours=1))
    with pytest.raises(NotValidError, match="another has not been validated"):
        require_valid(uri, "s", "another", now=NOW)


def test_a_table_with_a_critical_failure_is_not_to_be_read(tmp_path: Path) -> None:
    uri = tables(tmp_path, validation(), failed={"id_is_unique": "critical"})
    with pytest.raises(NotValidError, match="found critical failures: id_is_unique"):
        require_valid(uri, "s", "t", now=NOW)
