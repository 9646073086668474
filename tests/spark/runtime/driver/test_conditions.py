"""Our errors are recognised by their conditions after Spark has passed them through the JVM as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from stateward.contract.stream_status import Cause
from stateward.runtime.cause import LEASE, cause_of
from stateward.runtime.checkpoint.offsets import DataLossError
from stateward.runtime.driver.failure import explain, is_transient
from stateward.runtime.kafka.reader import ReadError
from stateward.runtime.lease.lease import LeaseLostError
from stateward.runtime.sink.output_rows import SchemaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.datasource import ReadLimit


class _Moved(DataLossError):
    """The class after a move: under a module path that no release has used."""


_Moved.__name__ = _Moved.__qualname__ = "DataLossError"
_Moved.__module__ = "stateward.elsewhere"


def test_an_error_of_a_python_worker(spark: SparkSession) -> None:
    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise SchemaError("rows do not fit")
        yield from batches

    with pytest.raises(PySparkException) as failed:
        spark.range(1).mapInArrow(fold, "id long").collect()
    assert cause_of(failed.value) == Cause("schema", lasting=True)
    assert "rows do not fit" in explain(failed.value)
    assert "STATEWARD_" not in explain(failed.value)


def test_an_error_of_a_batchs_callback(spark: SparkSession, tmp_path: Path) -> None:
    def write(batch: DataFrame, number: int) -> None:
        raise LeaseLostError("run r2 has it")

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(PySparkException) as failed:
        query.awaitTermination()
    assert cause_of(failed.value) == LEASE
    assert not is_transient(failed.value)


class _Reader(DataSourceStreamReader):
    def __init__(self, fails: str) -> None:
        self._fails = fails

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        if self._fails == "plan":
            raise _Moved("the records are gone")
        return {"at": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        raise ReadError("Kafka does not answer")
        yield (1,)


class _Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "failing"

    def schema(self) -> str:
        return "id long"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(self.options["fails"])


@pytest.mark.parametrize(
    ("fails", "cause", "passes"),
    [("plan", Cause("data_loss", lasting=True), False), ("read", Cause("other", lasting=False), True)],
)
def test_an_error_of_a_data_source(
    spark: SparkSession, tmp_path: Path, fails: str, cause: Cause, passes: bool
) -> None:
    spark.dataSource.register(_Source)
    rows = spark.readStream.format("failing").option("fails", fails).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(PySparkException) as failed:
        query.awaitTermination()
    assert cause_of(failed.value) == cause
    assert is_transient(failed.value) == passes
    assert "stateward.runtime.checkpoint.offsets" not in str(failed.value), "the class that was moved"
