"""A key leaves a table: its rows, the files that had them, and all that the log says of both."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from stateward.contract.privacy.forgotten import MARK, OF_KEY
from stateward.state.forget.delta_purge import cleaned_commit, purge
from stateward.state.forget.delta_rows import Rule, remove
from stateward.state.forget.subject import Subject
from tests.support.traces.search import traces_in

PERSON = Subject("user_id", "person-005", "masked-0123456789abcdef0123")
BY_USER = Rule(("user_id",), lambda row: row["user_id"] == PERSON.key, ("user_id",))
BY_PLACE = Rule(
    ("user_id",),
    lambda row: row["user_id"] == PERSON.key,
    ("day", "place"),
    (("day", ("2024-01-01", "2024-01-02")),),
)


def users(first: int, count: int = 6) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "user_id": [f"person-{number:03d}" for number in numbers],
            "day": [dt.date(2024, 1, 1 + number % 2) for number in numbers],
            "place": pa.array(numbers, pa.int64()),
        }
    )


def marked(table: DeltaTable) -> CommitProperties:
    return CommitProperties(custom_metadata={MARK: OF_KEY})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of many commits, with checkpoints, whose rows were compacted once."""
    uri = str(tmp_path / "table")
    for first in range(0, 12, 2):
        write_deltalake(uri, users(first), mode="append", partition_by=["day"])
        if first == 4:
            DeltaTable(uri).create_checkpoint()
    DeltaTable(uri).optimize.compact()
    DeltaTable(uri).create_checkpoint()
    return uri


@pytest.mark.parametrize("rule", [BY_USER, BY_PLACE], ids=["by the key", "by the place"])
def test_nothing_of_a_key_is_left_and_every_other_row_is(uri: str, rule: Rule) -> None:
    places = {trace.place.rpartition(".")[2] for trace in traces_in(Path(uri), PERSON.key)}
    assert places == {"parquet", "json"}, "the search finds it before"
    before = DeltaTable(uri).to_pyarrow_table().to_pylist()

    removed = remove(uri, rule, marked)
    purged = purge(uri, PERSON, rule)

    after = DeltaTable(uri)
    kept = [row for row in before if row["user_id"] != PERSON.key]
    assert removed == len(before) - len(kept) > 1
    assert sorted(after.to_pyarrow_table().to_pylist(), key=str) == sorted(kept, key=str)
    assert purged.files > 1 and purged.log_entries > 1
    assert traces_in(Path(uri), PERSON.key) == []


def test_it_can_be_repeated(uri: str) -> None:
    remove(uri, BY_USER, marked)
    purge(uri, PERSON, BY_USER)
    version = DeltaTable(uri).version()
    assert remove(uri, BY_USER, marked) == 0
    assert (purge(uri, PERSON, BY_USER).files, DeltaTable(uri).version()) == (0, version)


def test_other_versions_stay_readable(uri: str, tmp_path: Path) -> None:
    """Only files go in which the key is: a version that has none of them keeps its rows."""
    other = str(tmp_path / "other")
    write_deltalake(other, users(0, 4))
    write_deltalake(other, users(4, 2), mode="overwrite")
    write_deltalake(other, users(10, 2), mode="overwrite")
    purge(other, PERSON, BY_USER)
    assert DeltaTable(other, version=0).to_pyarrow_table().num_rows == 4
    assert DeltaTable(other, version=2).to_pyarrow_table().num_rows == 2
    assert traces_in(Path(other), PERSON.key) == []


def test_a_file_that_may_be_being_written_stays(uri: str) -> None:
    """A validation that writes rows at the same time has files that no commit names yet."""
    young, old = (Path(uri, name) for name in ("young.parquet", "old.parquet"))
    for file in (young, old):
        pq.write_table(users(5, 1), file)
    hour_ago = time.time() - 3700
    os.utime(old, (hour_ago, hour_ago))
    remove(uri, BY_USER, marked)
    purge(uri, PERSON, BY_USER)
    assert (young.exists(), old.exists()) == (True, False)


def test_a_table_that_is_open_elsewhere_goes_on(uri: str) -> None:
    """A running stream keeps its tables open, and reads on from the version that it knows."""
    opened = DeltaTable(uri)
    remove(uri, BY_USER, marked)
    write_deltalake(uri, users(20, 2), mode="append")
    purge(uri, PERSON, BY_USER)
    opened.update_incremental()
    assert opened.version() == DeltaTable(uri).version()
    write_deltalake(opened, users(30, 2), mode="append")
    rows = DeltaTable(uri).to_pyarrow_table()["user_id"].to_pylist()
    assert {"person-020", "person-030"} < set(rows)


def test_a_commit_that_names_a_key_is_cleaned_and_others_are_not() -> None:
    stats = {"numRecords": 2, "minValues": {"user_id": PERSON.key}, "maxValues": {"user_id": "z"}}
    add = {"add": {"path": "a%20b.parquet", "stats": json.dumps(stats)}}
    other = {
        "add": {"path": "c.parquet", "stats": json.dumps({**stats, "minValues": {"user_id": "person-0051"}})}
    }
    info = {
        "commitInfo": {
            "operation": "DELETE",
            "operationParameters": {"predicate": f"user_id = '{PERSON.key}'"},
        }
    }
    text = "".join(json.dumps(action) + "\n" for action in (info, add, other))
    lines = [json.loads(line) for line in cleaned_commit(text, (), PERSON).splitlines()]
    assert lines[0]["commitInfo"]["operationParameters"] == {"predicate": "forgotten"}
    assert json.loads(lines[1]["add"]["stats"]) == {"numRecords": 2}
    assert lines[2] == other
    [gone] = [
        json.loads(line) for line in cleaned_commit(json.dumps(other), {"c.parquet"}, PERSON).splitlines()
    ]
    assert json.loads(gone["add"]["stats"]) == {"numRecords": 2}, "a file that is gone has no limits"


def test_the_start_of_a_long_key_in_statistics_is_found() -> None:
    long = Subject("user_id", "x" * 40, "masked")
    stats = {"numRecords": 1, "maxValues": {"user_id": "x" * 31 + "x\U0010ffff"}}
    text = json.dumps({"add": {"path": "a", "stats": json.dumps(stats)}})
    assert "xxx" not in cleaned_commit(text, (), long)
