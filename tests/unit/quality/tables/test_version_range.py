"""Which versions a validation covers, and which files hold the rows that they brought."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from stateward.contract.privacy.forgotten import EXPIRED, MARK, OF_KEY
from stateward.quality.tables.table_log import REMOVAL, Commit, brought, read_commits
from stateward.quality.tables.version_range import Pin, Span, ValidationError, choose, covered, pin_others


def append(uri: str, *values: int, batch: int | None = None) -> int:
    marks = [] if batch is None else [Transaction("g1:t", batch)]
    rows = pa.table({"n": pa.array(values, pa.int64()), "day": ["a b"] * len(values)})
    write_deltalake(
        uri,
        rows,
        mode="append",
        partition_by=["day"],
        commit_properties=CommitProperties(app_transactions=marks),
    )
    return int(DeltaTable(uri).version())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the versions 0 to 2, of a row each."""
    made = f"file://{tmp_path}/t"
    for batch in range(3):
        append(made, batch, batch=batch)
    return made


def numbers(uri: str, commits: list[Commit]) -> list[int] | None:
    """The values in the files that the commits brought."""
    import pyarrow.parquet as pq

    files = brought(commits)
    if files is None:
        return None
    folder = uri.removeprefix("file://")
    return sorted(
        value for file in files for value in pq.ParquetFile(f"{folder}/{file.path}").read()["n"].to_pylist()
    )


@pytest.mark.parametrize(
    ("spans", "end", "why"),
    [
        ([], -1, "nothing was validated"),
        ([(0, 17)], 17, "the first"),
        ([(0, 17), (18, 40)], 40, "one after the other"),
        ([(18, 40), (0, 17), (5, 6)], 40, "in any order, and twice"),
        ([(0, 17), (30, 40)], 17, "what was asked for beyond a gap does not close it"),
        ([(3, 4)], -1, "nor does it before the first"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_how_far_all_versions_are_covered(spans: list[tuple[int, int]], end: int, why: str) -> None:
    assert covered(spans) == end, why


def test_the_next_range_goes_on_where_the_last_ended_and_leaves_nothing_out(uri: str) -> None:
    table_id = str(DeltaTable(uri).metadata().id)

    def due(*done: tuple[int, int], asked: tuple[int | None, int | None] = (None, None)) -> tuple[int, int]:
        spans = [(table_id, *one) for one in done]
        found = choose(stream="s", table="t", uri=uri, asked=asked, done=[*spans, ("another", 0, 2)])
        return found.first, found.last

    assert due() == (0, 2)
    assert due((0, 0)) == (1, 2)
    assert due((0, 2)) == (2, 2)  # nothing is new
    assert due((0, 0), asked=(None, 1)) == (1, 1)
    assert due((0, 2), asked=(0, 1)) == (0, 1)
    for asked, said in (((None, 3), "versions 0 to 2, asked for 3"), ((2, 1), "Swap the two")):
        with pytest.raises(ValidationError, match=said):
            due(asked=asked)


def test_a_range_in_the_past_is_judged_as_of_then_and_reads_other_tables_as_they_were(uri: str) -> None:
    other = f"{uri.rpartition('/')[0]}/other"
    append(other, 1)
    later = choose(stream="s", table="t", uri=uri, asked=(None, None), done=[])
    assert later.until is None
    append(uri, 9)
    append(other, 2)
    then = choose(stream="s", table="t", uri=uri, asked=(0, 2), done=[])
    assert then.until == read_commits(uri, "t", 3, 3)[0].at

    assert pin_others("s", then, ["other"], {})["other"].version == 0
    assert pin_others("s", later, ["other"], {})["other"].version == 1
    recorded = {"other": Pin(other, "id", 0)}
    assert pin_others("s", later, ["other"], recorded) == recorded
    with pytest.raises(ValidationError, match="found none"):
        pin_others("s", later, ["missing"], {})


def test_commits_say_what_they_did_and_which_batch_they_are(uri: str) -> None:
    append(uri, 7, 8)
    commits = read_commits(uri, "t", 1, 3)
    assert [(one.version, one.generation, one.batch_id, one.rows_added) for one in commits] == [
        (1, "g1", 1, 1),
        (2, "g1", 2, 1),
        (3, None, None, 2),
    ]
    assert not any(one.removed or one.new_schema for one in commits)
    assert commits[0].at <= commits[2].at <= datetime.now(UTC)
    (Path(uri.removeprefix("file://")) / "_delta_log" / f"{1:020d}.json").unlink()
    assert [one.version for one in read_commits(uri, "t", 0, 3)] == [2, 3]


def test_rows_that_optimize_rewrites_are_not_new_and_deleted_ones_are_gone(uri: str) -> None:
    append(uri, 3)
    assert numbers(uri, read_commits(uri, "t", 2, 3)) == [2, 3]
    DeltaTable(uri).delete("n = 3")
    assert numbers(uri, read_commits(uri, "t", 2, 4)) == [2]
    DeltaTable(uri).optimize.compact()
    append(uri, 5)
    assert numbers(uri, read_commits(uri, "t", 2, 6)) == [2, 5]
    assert [bool(one.removed) for one in read_commits(uri, "t", 4, 6)] == [True, False, False]
    DeltaTable(uri).delete("n = 2")  # out of a file that holds older rows too
    assert numbers(uri, read_commits(uri, "t", 2, 7)) is None


def test_a_span_is_whole_when_nothing_is_before_it() -> None:
    assert Span("u", "id", 0, 4).is_whole
    assert not Span("u", "id", 1, 4).is_whole


@pytest.mark.parametrize(("kind", "is_known"), [(OF_KEY, None), (EXPIRED, [3])])
def test_rows_that_were_removed_on_purpose_are_no_change_by_hand(
    uri: str, kind: str, is_known: list[int] | None
) -> None:
    """The files of a forgotten key are gone, so the rows of its range are those of the whole table."""
    marked = CommitProperties(custom_metadata={MARK: kind})
    append(uri, 3)
    DeltaTable(uri).delete("n = 1", commit_properties=marked)
    DeltaTable(uri).delete("n = 2")
    _, removal, by_hand = commits = read_commits(uri, "t", 3, 5)
    assert (removal.operation, removal.added, removal.removed) == (REMOVAL, (), ())
    assert removal.forgets == (kind == OF_KEY)
    assert (by_hand.operation, len(by_hand.removed)) == ("DELETE", 1)
    assert numbers(uri, commits) == is_known
