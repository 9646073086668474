"""Checksums of a state by variable, independent of the order of entries and of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.state.reader.stores import readable
from stateward.state.reader.variables import entries, variables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Digest:
    """The checksums of one variable.

    Attributes:
        entries: Number of entries.
        keys: Checksum of the keys.
        content: Checksum of keys and values together.
    """

    entries: int
    keys: str
    content: str


StateDigests = dict[str, Digest]
"""Digests by variable."""


@dataclass(frozen=True)
class Placement:
    """How the entries of a state are distributed over partitions.

    Attributes:
        per_partition: Entries by variable and partition.
        misplaced: By variable, the number of entries that Spark would look up in another partition.
        unknown: Variables of operators with unknown partitioning.
    """

    per_partition: dict[str, dict[int, int]]
    misplaced: dict[str, int]
    unknown: tuple[str, ...]


def digest_state(spark: SparkSession, checkpoint_uri: str, batch_id: int | None = None) -> StateDigests:
    """Compute the checksums of a state in one pass.

    Args:
        spark: A session.
        checkpoint_uri: The checkpoint.
        batch_id: A retained batch, or None for the newest.

    Raises:
        StateReadError: The state cannot be read.
    """
    return survey(spark, checkpoint_uri, 1, batch_id)[0]


def survey(
    spark: SparkSession, checkpoint_uri: str, partitions: int, batch_id: int | None = None
) -> tuple[StateDigests, Placement]:
    """Compute, in one pass, the checksums of a state and the placement of its entries.

    Raises:
        StateReadError: The state cannot be read.
    """
    found = variables(spark, checkpoint_uri)
    if not found:
        return {}, Placement({}, {}, ())
    with readable(spark, checkpoint_uri):
        rows = _summed(entries(spark, checkpoint_uri, found, batch_id), partitions).collect()
    sums: dict[str, list[int]] = {str(variable): [0] * 5 for variable in found}
    places: dict[str, dict[int, int]] = {str(variable): {} for variable in found}
    misplaced, unknown = dict.fromkeys(sums, 0), set()
    for row in rows:
        name = row["variable"]
        total = sums[name]
        total[0] += row["entries"]
        total[1] += int(row["key_sum"])
        total[2] ^= row["key_xor"]
        total[3] += int(row["sum"])
        total[4] ^= row["xor"]
        places[name][row["partition"]] = row["entries"]
        misplaced[name] += row["misplaced"]
        if row["unknown"]:
            unknown.add(name)
    digests = {
        name: Digest(count, _hex(key_sum, key_xor), _hex(sum_, xor))
        for name, (count, key_sum, key_xor, sum_, xor) in sums.items()
    }
    return digests, Placement(places, misplaced, tuple(sorted(unknown)))


def digest_rows(rows: DataFrame) -> StateDigests:
    """The checksums of rows ``variable, key, value``, by variable; a variable without rows has none."""
    return {
        row["variable"]: Digest(
            row["entries"], _hex(int(row["key_sum"]), row["key_xor"]), _hex(int(row["sum"]), row["xor"])
        )
        for row in rows.groupBy("variable").agg(*_sums()).collect()
    }


def _summed(rows: DataFrame, partitions: int) -> DataFrame:
    place = F.pmod(F.col("hash"), F.lit(partitions))
    return rows.groupBy("variable", "partition").agg(
        *_sums(),
        F.count_if(place != F.col("partition")).alias("misplaced"),
        F.count_if(F.col("hash").isNull()).alias("unknown"),
    )


def _sums() -> list[Column]:
    key, entry = F.xxhash64("key"), F.xxhash64("key", "value")
    # An xor alone misses an entry that occurs twice, and a sum of longs may overflow.
    return [
        F.count("*").alias("entries"),
        F.sum(key.cast("decimal(20,0)")).alias("key_sum"),
        F.bit_xor(key).alias("key_xor"),
        F.sum(entry.cast("decimal(20,0)")).alias("sum"),
        F.bit_xor(entry).alias("xor"),
    ]


def _hex(total: int, xor: int) -> str:
    bits = 2**64
    return f"{total % bits:016x}-{xor % bits:016x}"
