"""The verb ``repartition`` on queries that are none of ours: each kind of state, however Spark keeps it.

The matrix is all of `ALL`. CI has so many cases of it that each two values of two axes meet in one;
`make matrix` runs all of them. Our own streams are in `test_state_repartition`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from stateward.state.files.checkpoint_copy import checksums_of
from stateward.state.files.checkpoint_integrity import examine
from stateward.state.files.state_file_completeness import missing_files
from stateward.state.partitions.repartition import RepartitionRefusedError, repartition
from tests.support.full import ci_full, only_full
from tests.support.state.foreign_queries import QUERIES, Build, Runner, pairs, parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

UP, DOWN = (2, 5), (5, 2)
AVRO, UNSAFE = "avro", "unsaferow"
_STORE = "spark.sql.streaming.stateStore"


@dataclass(frozen=True)
class Case:
    """One cell of the matrix.

    Attributes:
        query: Name of the query.
        move: Partitions before and after.
        changelog: Whether Spark writes changelogs instead of snapshots.
        format_version: Version of the checkpoint format.
        encoding: Encoding of the state.
    """

    query: str
    move: tuple[int, int]
    changelog: bool
    format_version: int
    encoding: str

    def __str__(self) -> str:
        before, after = self.move
        kept = f"changelog={self.changelog}, format {self.format_version}, {self.encoding}"
        return f"{self.query}, {before} to {after}, {kept}"

    @property
    def conf(self) -> dict[str, str]:
        return {
            f"{_STORE}.rocksdb.changelogCheckpointing.enabled": str(self.changelog).lower(),
            f"{_STORE}.checkpointFormatVersion": str(self.format_version),
            f"{_STORE}.encodingFormat": self.encoding,
        }


def encodings(query: str) -> tuple[str, ...]:
    """Only transformWithState can have its state in Avro; Spark rejects it for its built-in operators."""
    return (AVRO, UNSAFE) if query.startswith("baskets") else (UNSAFE,)


ALL = [
    Case(query, move, changelog, format_version, encoding)
    for query in QUERIES
    for move, changelog, format_version, encoding in product(
        (UP, DOWN), (True, False), (1, 2), encodings(query)
    )
]
# Two cases of a query differ in everything.
COVERING = [
    Case("baskets by event time", UP, True, 1, AVRO),
    Case("baskets by event time", DOWN, False, 2, UNSAFE),
    Case("baskets by processing time", UP, True, 1, UNSAFE),
    Case("baskets by processing time", DOWN, False, 2, AVRO),
    Case("session windows", DOWN, True, 1, UNSAFE),
    Case("session windows", UP, False, 2, UNSAFE),
    Case("join", DOWN, True, 2, UNSAFE),
    Case("join", UP, False, 1, UNSAFE),
]
CASES = [pytest.param(case, marks=ci_full if case in COVERING else only_full) for case in ALL]

Undisturbed = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Undisturbed:
    """The rows of a query whose state is not moved."""

    @cache
    def rows(query: str) -> list[str]:
        folder = tmp_path_factory.mktemp("undisturbed")
        case = Case(query, UP, True, 1, encodings(query)[0])
        runner = Runner(folder, spark, QUERIES[query].build, case.conf)
        for part in parts():
            runner.run(part, f"file://{folder}/checkpoint", 2)
        return runner.rows

    return rows


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_repartitioned_state_is_equal_and_the_query_continues(
    case: Case, undisturbed: Undisturbed, tmp_path: Path, spark: SparkSession
) -> None:
    query = QUERIES[case.query]
    first, second = (f"file://{tmp_path}/{name}" for name in ("first", "second"))
    before, after = case.move
    runner = Runner(tmp_path, spark, query.build, case.conf)
    for part in parts()[:2]:
        runner.run(part, first, before)
    put_out, files = list(runner.rows), checksums_of(first)

    # The session has none of the query's state settings. The verb verifies the state.
    done = repartition(spark, first, second, after, lambda step, state: None)

    assert checksums_of(first) == files, "the source has changed"
    assert [missing_files(uri) for uri in (first, second)] == [[], []]
    assert (done.partitions_before, done.partitions_after) == case.move
    kept = {name.rpartition(", ")[2]: digest.entries for name, digest in done.digests.items()}
    assert kept.keys() == query.kinds
    assert all(kept.values()), f"a variable without an entry shows nothing: {kept}"
    assert all(len(places) > 1 for places in done.per_partition.values()), done.per_partition

    for part in parts()[2:]:
        # The checkpoint's number of partitions applies, not the session's.
        runner.run(part, second, before)
    assert examine(second).partitions == after
    assert runner.rows == undisturbed(case.query)
    assert runner.rows != put_out, "the moved state produced no rows"


@dataclass(frozen=True)
class Refused:
    """A query whose state cannot be moved, and the operator that prevents it."""

    build: Build
    operator: str
    mode: str = "append"
    conf: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.operator


REFUSED = [
    Refused(pairs, "symmetricHashJoin", conf={"spark.sql.streaming.join.stateFormatVersion": "3"}),
    Refused(lambda rows: rows.limit(99).select("owner"), "globalLimit"),
    Refused(lambda rows: rows.agg(F.count("*")), "stateStoreSave", mode="update"),
]


@pytest.mark.parametrize(
    "case", [REFUSED[0], *(pytest.param(case, marks=ci_full) for case in REFUSED[1:])], ids=str
)
def test_what_cannot_be_proved_is_refused_before_anything_is_written(
    case: Refused, tmp_path: Path, spark: SparkSession
) -> None:
    source = f"file://{tmp_path}/source"
    conf = {f"{_STORE}.encodingFormat": UNSAFE, **case.conf}
    Runner(tmp_path, spark, case.build, conf, case.mode).run(parts()[0], source)
    files = checksums_of(source)
    assert missing_files(source) == []
    with pytest.raises(RepartitionRefusedError, match=rf"found operator 0 \({case.operator}\), for which"):
        repartition(spark, source, f"file://{tmp_path}/target", 5, lambda step, state: None)
    assert not (tmp_path / "target").exists()
    assert checksums_of(source) == files


def test_each_pair_of_values_occurs_in_a_case() -> None:
    def met(cases: list[Case]) -> set[tuple[tuple[str, object], ...]]:
        names = ("query", "move", "changelog", "format_version", "encoding")
        return {
            ((one, getattr(case, one)), (other, getattr(case, other)))
            for case in cases
            for one, other in product(names, names)
        }

    assert met(COVERING) == met(ALL)
