"""A query with state and nothing around it: files in, keys to update in each, no output.

A file is a batch, so the number of batches, and of keys in each, is known. The session and the processor of
keyed streams are those of a driver; a native stream is here one aggregation by key.
"""

from __future__ import annotations

import marshal
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError

from benchmarks.states.padded import POOL_BYTES, Event, Padded, PaddedLogic, key_names, pool
from stateward.contract.names import ENV_JARS
from stateward.control.launchers.launch import DRIVER_CONF
from stateward.control.launchers.local_jvm import local_jvm_conf
from stateward.project.settings import CHECKOUT
from stateward.runtime.ingest.packed_format import LANE_EVENT, OUTPUT_DDL, PACKED_DDL, bucket_of
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 2
BUCKETS = 64
_KINDS = {".zip": "whole", ".snapshot": "whole", ".changelog": "changes", ".delta": "changes"}
_GC_PAUSE = re.compile(r"Pause .* ([\d.]+)ms$", re.MULTILINE)


class TaskTime(NamedTuple):
    """Milliseconds of a task, and of CPU in it, which other work on the machine changes less."""

    ran_ms: float
    cpu_ms: float


@dataclass
class Rig:
    """One checkpoint with its query.

    Attributes:
        folder: For the input, the checkpoint and the copies of states; empty.
        engine: ``native`` or ``keyed``.
        size: Bytes of text in each state.
        spark: The session.
    """

    folder: Path
    engine: str
    size: int
    spark: SparkSession
    files: int = 0
    stages: int = 0
    tasks: Sequence[TaskTime] = ()

    @property
    def checkpoint(self) -> Path:
        """The checkpoint's folder."""
        return self.folder / "checkpoint"

    def feed(self, keys: Iterable[int]) -> None:
        """Add a batch with an event for each of these keys."""
        names = key_names(keys)
        table = pa.table({"user_id": names, "event_id": [f"{self.files}-{n}" for n in range(len(names))]})
        (self.folder / "input").mkdir(exist_ok=True)
        # Spark orders files by the time of their last change, which is to the millisecond.
        target = self.folder / "input" / f"{self.files:06}.parquet"
        pq.write_table(table, target.with_suffix(".tmp"))
        moment = 1_700_000_000 + self.files
        os.utime(target.with_suffix(".tmp"), (moment, moment))
        target.with_suffix(".tmp").rename(target)
        self.files += 1

    def run(self) -> tuple[float, list[dict[str, Any]]]:
        """Start the query, which loads the state, and process all files that wait.

        Afterwards ``tasks`` has the mean time of the tasks with state, of each batch.

        Returns:
            Seconds from the start of the query to the commit of its last batch, and Spark's progress of each
            batch.
        """
        begun = time.monotonic()
        query = (
            self._rows()
            .writeStream.format("noop")
            .outputMode("append" if self.engine == "keyed" else "update")
            .option("checkpointLocation", f"file://{self.checkpoint}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        seconds = time.monotonic() - begun
        self.tasks = self._task_times()
        progress = [one for one in map(_as_dict, query.recentProgress) if one["numInputRows"]]
        return seconds, progress

    def behind(self) -> int:
        """Changes of batches in files of their own that a start has to read after the newest snapshot."""
        newest = {"whole": 0, "changes": 0}
        for file in (self.checkpoint / "state" / "0" / "0").glob("[0-9]*.*"):
            if kind := _KINDS.get(file.suffix):
                newest[kind] = max(newest[kind], int(file.stem.split("_")[0]))
        return max(0, newest["changes"] - newest["whole"])

    def _task_times(self) -> list[TaskTime]:
        """The stages since the last call that have a task for each state partition."""
        context: Any = self.spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        store, found, missing = context.statusStore(), [], 0
        while missing < 5:
            try:
                stage = store.lastStageAttempt(self.stages)
                missing = 0
                if stage.numTasks() == PARTITIONS:
                    ran, cpu = stage.executorRunTime(), stage.executorCpuTime() / 1e6
                    found.append(TaskTime(ran / PARTITIONS, cpu / PARTITIONS))
            except Py4JJavaError:
                # A stage that was skipped, or the end.
                missing += 1
            self.stages += 1
        self.stages -= missing
        return found

    def _rows(self) -> DataFrame:
        events = (
            self.spark.readStream.schema("user_id string, event_id string")
            .option("maxFilesPerTrigger", "1")
            .parquet(f"file://{self.folder / 'input'}")
        )
        return _native(events, self.size) if self.engine == "native" else self._keyed(events)

    def _keyed(self, events: DataFrame) -> DataFrame:
        from stateward.runtime.keyed.bucket_processor import BucketProcessor
        from stateward.runtime.keyed.log_store import LogBackend
        from stateward.runtime.query import scan
        from stateward.runtime.watermark.admission import Limits

        processor = BucketProcessor(
            logic=PaddedLogic(self.size),
            state_type=Padded,
            event_type=Event,
            outputs=(),
            limits=Limits(0, max_held=1, eager=True),
            topics=Topics(("",)),
            late_values=dict.fromkeys,
            state_version=1,
            backend=LogBackend(str(self.folder / "copies"), f"file://{self.checkpoint}"),
        )
        grouped = scan.keyed(events.mapInArrow(_packed, PACKED_DDL), 0)
        return grouped.transformWithState(processor, OUTPUT_DDL, "append", "eventTime")


def _native(events: DataFrame, size: int) -> DataFrame:
    from pyspark.sql import functions as F

    number = F.substring("user_id", 2, 8).cast("long")
    start = number * 7919 % (POOL_BYTES - size) + 1
    # A part of bytes is found at once; in text Spark counts the characters before it.
    text = F.substring(F.lit(bytearray(pool().encode())), start, F.lit(size))
    return events.groupBy("user_id").agg(F.count("*").alias("count"), F.last(text).alias("text"))


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    buckets: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    offset = 0
    for batch in batches:
        for user_id, event_id in zip(
            batch["user_id"].to_pylist(), batch["event_id"].to_pylist(), strict=True
        ):
            offset += 1
            buckets[bucket_of(user_id, BUCKETS)].append((user_id, 0, offset, 0, None, event_id, 1000))
    rows = [
        {
            "lane": LANE_EVENT,
            "bucket": bucket,
            "tick_ts": None,
            "records": len(records),
            "payload": marshal.dumps(records),
        }
        for bucket, records in buckets.items()
    ]
    schema = pa.schema(
        [
            ("lane", pa.string()),
            ("bucket", pa.int32()),
            ("tick_ts", pa.timestamp("us", "UTC")),
            ("records", pa.int64()),
            ("payload", pa.binary()),
        ]
    )
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def open_session(folder: Path, heap: str, engine: str, conf: Mapping[str, str]) -> SparkSession:
    """A session as a driver's, whose JVM logs its collections in `gc.log`."""
    from stateward.runtime.query.native_query import NATIVE_CONF
    from stateward.runtime.query.stream_query import KEYED_CONF
    from stateward.runtime.session import checkpoint_conf, create_session

    jvm = f"{DRIVER_CONF['spark.driver.extraJavaOptions']} -Xlog:gc:file={folder / 'gc.log'}"
    settings = {
        **local_jvm_conf(CHECKOUT / "jars", "local[2]", {}),
        "spark.driver.extraJavaOptions": jvm,
        "spark.driver.memory": heap,
    }
    submitted = " ".join(f"--conf '{name}={value}'" for name, value in settings.items())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{submitted} pyspark-shell"
    os.environ[ENV_JARS] = str(CHECKOUT / "jars" / "spark")
    return create_session(
        "stores",
        PARTITIONS,
        {
            **checkpoint_conf("file:"),
            **(NATIVE_CONF if engine == "native" else KEYED_CONF),
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            "spark.ui.retainedStages": "1000",
            **conf,
        },
    )


def gc_pauses_ms(log: str) -> list[float]:
    """The length of each pause in a log of the garbage collector."""
    return [float(found) for found in _GC_PAUSE.findall(log)]


def heap_used(spark: SparkSession) -> int:
    """Bytes of the heap that are in use after a full collection."""
    jvm: Any = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def _as_dict(progress: Any) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(progress.json) if hasattr(progress, "json") else dict(progress)
    return found
