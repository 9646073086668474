"""Spark computes the same row ids as Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stateward.runtime.api import key_logic
from stateward.runtime.query.native_query import row_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NUL = "\0"
PARTS = [
    ("u", 5, "e"),
    ("", 0, ""),
    ("u", 5, f"7{NUL}e"),
    (f"u{NUL}5", 7, "e"),
    (f"ü{NUL}😀", -1, NUL),
    ("😀", 2, "x"),
]


def test_an_identity_is_the_same_in_spark_and_in_python(spark: SparkSession) -> None:
    rows = spark.createDataFrame(PARTS, "user string, at bigint, event string")
    found = [row["id"] for row in rows.select(row_id("user", "at", "event").alias("id")).collect()]

    assert found == [key_logic.row_id(*parts) for parts in PARTS]
    assert len(set(found)) == len(PARTS)
