"""The Spark session of validations, and its settings for few rows."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stateward.quality.tables.version_range import Pin
from stateward.runtime.session import CODE_FACTORY, NO_CODE, storage_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FEW_ROWS = 25_000
_FOR_FEW_ROWS = {
    # Code costs more to generate and compile than it saves; with 100,000 rows it is the other way round.
    "spark.sql.codegen.wholeStage": "false",
    CODE_FACTORY: NO_CODE,
    # One task needs no plan by the size of what was shuffled.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
_TIME_TRAVEL = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
_EXPECTATIONS = "stateward.quality.validation.expectations"


def session_of(stream: str) -> Callable[[], SparkSession]:
    """Return what starts Spark for the validations of a stream's tables."""

    def start() -> SparkSession:
        from pyspark.sql import SparkSession

        # The import takes as long as starting Spark, and one runs in Python, the other in Java.
        loading = threading.Thread(target=importlib.import_module, args=(_EXPECTATIONS,))
        loading.start()
        spark = (
            SparkSession.builder.appName(f"quality {stream}")
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
            .config("spark.sql.session.timeZone", "UTC")
            # Otherwise Spark refuses versions beyond the log's retention; maintenance keeps validated ones.
            .config(_TIME_TRAVEL, "false")
            .config(map={**storage_conf()})
            .getOrCreate()
        )
        # The first plan loads most of Spark's classes.
        with _settings(spark, _FOR_FEW_ROWS):
            spark.range(1).count()
        loading.join()
        return spark

    return start


@contextmanager
def validating(spark: SparkSession, read: Iterable[Pin]) -> Iterator[None]:
    """Set the session for one validation, and leave nothing of it to the next one.

    Args:
        spark: the session.
        read: the tables that the validation reads; their logs say how many rows they have.
    """
    with _settings(spark, _FOR_FEW_ROWS if _has_few_rows(read) else {}):
        try:
            yield
        finally:
            # Great Expectations caches the rows that it validates, and never frees them.
            spark.catalog.clearCache()


def _has_few_rows(read: Iterable[Pin]) -> bool:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return sum(DeltaTable(pin.uri, version=pin.version).count() for pin in read) <= _FEW_ROWS
    except DeltaError:
        # A version whose log is gone; who opens it says which.
        return False


@contextmanager
def _settings(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in conf}
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))
