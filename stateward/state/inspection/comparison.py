"""Compares two states entry by entry, independent of their partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.contract.process_output import Report
from stateward.state.inspection.masker import Masker
from stateward.state.reader.checksums import StateDigests, digest_state
from stateward.state.reader.stores import StateReadError, readable, spark_errors_as
from stateward.state.reader.variables import entries, variables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

KEYS = "newest state by key"
"""Variable name of a keyed stream's newest states in a comparison by key."""

# A chunk of a log may hold the states of a thousand keys.
_LONGEST = 2000
_LONGEST_READ = 20_000


@dataclass(frozen=True)
class Samples:
    """How to sample the entries of each variable that differs: the maximum number, and the masker."""

    most: int
    masker: Masker

    def of(self, variable: str, row: Row) -> Sample:
        """The masked sample of an entry.

        Args:
            variable: Name of its variable.
            row: ``key string, left array<string>, right array<string>``.
        """
        is_key = variable == KEYS
        key = self.masker.key(row["key"]) if is_key else self.masker.text(row["key"])
        sides = (self._shown(row[side], row["key"] if is_key else None) for side in ("left", "right"))
        return Sample(key[:_LONGEST], *sides)

    def _shown(self, values: Sequence[str] | None, key: str | None) -> str | None:
        if values is None:
            return None
        return "; ".join(self.masker.text(value, key) for value in values)[:_LONGEST]


@dataclass(frozen=True)
class Sample:
    """One entry that differs; a missing value is None, a long one is cut to 2,000 characters."""

    key: str
    left: str | None
    right: str | None


@dataclass(frozen=True)
class Difference:
    """How a variable differs.

    Attributes:
        variable: Name of the variable.
        only_left: Number of keys that only the left state has.
        only_right: Number of keys that only the right state has.
        changed: Number of keys with different values.
        samples: The first of them, ordered by key.
    """

    variable: str
    only_left: int
    only_right: int
    changed: int
    samples: tuple[Sample, ...]

    def __str__(self) -> str:
        return (
            f"{self.variable}: {self.only_left} entries only left, {self.only_right} only right, "
            f"{self.changed} with another value"
        )


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        left: Number of entries in the left state, by variable.
        right: Number of entries in the right state, by variable.
        differences: The variables that differ; empty if the states are equal.
    """

    left: dict[str, int]
    right: dict[str, int]
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        """Whether both have the same variables with the same entries."""
        return not self.differences


@dataclass(frozen=True)
class State:
    """A state to compare: a checkpoint, and a retained batch of it, or None for the newest."""

    checkpoint_uri: str
    batch_id: int | None = None


def compare_entries(
    spark: SparkSession, left: State, right: State, report: Report, samples: Samples
) -> Comparison:
    """Compare everything that Spark stores: every operator, store and variable, timers included.

    A keyed stream's log is compared chunk by chunk, as stored. Two runs over the same input have different
    chunks and random ids; compare them with `compare.compare_keys`.

    Args:
        spark: A session.
        left: One state.
        right: The other.
        report: Called with ``digest`` and ``compare``.
        samples: How to sample the entries that differ.

    Raises:
        StateReadError: A state cannot be read.
    """
    return compare_by(
        spark,
        (left, right),
        report,
        digest=lambda state: digest_state(spark, state.checkpoint_uri, state.batch_id),
        rows=lambda state, names: _entries(spark, state, names),
        samples=samples,
    )


def compare_by(
    spark: SparkSession,
    states: tuple[State, State],
    report: Report,
    *,
    digest: Callable[[State], StateDigests],
    rows: Callable[[State, list[str]], DataFrame],
    samples: Samples,
) -> Comparison:
    """Compare the checksums of two states, and then the entries of variables whose checksums differ.

    Args:
        spark: A session.
        states: Left and right.
        report: Called with ``digest`` and ``compare``.
        digest: Computes the checksums of a state.
        rows: Reads variables of a state, by name: ``variable string, key string, value string``.
        samples: How to sample the entries that differ.

    Raises:
        StateReadError: A state cannot be read.
    """
    digests = []
    for name, state in zip(("left", "right"), states, strict=True):
        report("digest", name)
        digests.append(digest(state))
    mine, its = digests
    suspects = sorted(name for name in mine.keys() | its.keys() if mine.get(name) != its.get(name))
    differences: list[Difference] = []
    if suspects:
        report("compare", ", ".join(suspects))
        differences = _of_suspects(spark, states, lambda state: rows(state, suspects), suspects, samples)
    return Comparison(_entry_counts(mine), _entry_counts(its), tuple(differences))


def _of_suspects(
    spark: SparkSession,
    states: tuple[State, State],
    rows: Callable[[State], DataFrame],
    names: list[str],
    samples: Samples,
) -> list[Difference]:
    sides = [rows(state).cache() for state in states]
    try:
        for state, side in zip(states, sides, strict=True):
            # Read each once, while the session has its format: the two may differ in it.
            with readable(spark, state.checkpoint_uri):
                side.count()
        with spark_errors_as(StateReadError, "the two states cannot be compared"):
            return _differences(sides[0], sides[1], names, samples)
    finally:
        for side in sides:
            side.unpersist()


def _entries(spark: SparkSession, state: State, names: list[str]) -> DataFrame:
    found = [found for found in variables(spark, state.checkpoint_uri) if str(found) in names]
    if not found:
        return spark.createDataFrame([], "variable string, key string, value string")
    with readable(spark, state.checkpoint_uri):
        rows = entries(spark, state.checkpoint_uri, found, state.batch_id)
        return rows.select("variable", "key", "value")


def _differences(left: DataFrame, right: DataFrame, names: list[str], samples: Samples) -> list[Difference]:
    # A key occurs once, except in a damaged state, where the number of occurrences matters.
    sides = [
        side.groupBy("variable", "key").agg(F.array_sort(F.collect_list("value")).alias(name))
        for side, name in ((left, "left"), (right, "right"))
    ]
    joined = sides[0].join(sides[1], ["variable", "key"], "full_outer")
    differing = joined.where(~F.col("left").eqNullSafe(F.col("right"))).cache()
    try:
        counts = {
            row["variable"]: row
            for row in differing.groupBy("variable")
            .agg(
                F.count_if(F.col("right").isNull()).alias("only_left"),
                F.count_if(F.col("left").isNull()).alias("only_right"),
                F.count_if(F.col("left").isNotNull() & F.col("right").isNotNull()).alias("changed"),
            )
            .collect()
        }
        return [_difference(differing, name, counts.get(name), samples) for name in names]
    finally:
        differing.unpersist()


def _difference(differing: DataFrame, name: str, counts: Row | None, samples: Samples) -> Difference:
    if counts is None:
        # Only one side has the variable, without an entry.
        return Difference(name, 0, 0, 0, ())
    found = (counts["only_left"], counts["only_right"], counts["changed"])
    return Difference(name, *found, _samples(differing, name, samples))


def _samples(differing: DataFrame, name: str, samples: Samples) -> tuple[Sample, ...]:
    sides = [
        F.transform(side, lambda value: F.substring(value, 1, _LONGEST_READ)).alias(side)
        for side in ("left", "right")
    ]
    rows = differing.where(F.col("variable") == name).orderBy("key").limit(samples.most)
    return tuple(samples.of(name, row) for row in rows.select("key", *sides).collect())


def _entry_counts(digests: StateDigests) -> dict[str, int]:
    return {name: digest.entries for name, digest in digests.items()}
