"""The Spark session of a driver: small, quiet, and able to hold state."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateward.contract.environment import ENV_JARS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).resolve().parents[3]
_STATE = "spark.sql.streaming.stateStore"

STREAM_CONF: dict[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Our tables are small or appended to; the default of 50 tasks per log read dominates a small batch.
    "spark.databricks.delta.snapshotPartitions": "1",
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.rocksdb.boundedMemoryUsage": "true",
    f"{_STATE}.rocksdb.maxMemoryUsageMB": "128",
    f"{_STATE}.encodingFormat": "avro",
    "spark.sql.streaming.minBatchesToRetain": "100",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.python.daemon.module": "stateward.runtime.driver.worker_daemon",
    "spark.log.level": "WARN",
}

# On a local disk Spark's default sets each file's permissions, and without Hadoop's native library forks a
# process for that: 30 ms and more a file, ten files a batch. This one renames a finished file into its place
# as well, but looks first whether one is there, which is not atomic: the lease is why nobody else writes.
_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}

# Nobody else has to reach a driver that is its own executor.
_LOCAL_CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_LOCAL_MASTER = "local[2]"
_NOISY_LOGGERS = (
    "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer",
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.util.SparkStringUtils",
    "org.apache.spark.sql.avro.AvroSerializer",
)


def checkpoint_conf(checkpoint_uri: str) -> dict[str, str]:
    """Settings for the place where a checkpoint lies."""
    return _LOCAL_CHECKPOINT if checkpoint_uri.startswith("file:") else {}


def create_session(app_name: str, state_partitions: int, extra: Mapping[str, str]) -> SparkSession:
    """Start or get the session.

    Under ``spark-submit`` master and JARs come from its arguments. Without it, as in tests, the master is
    local and the JARs are those in the folder ``STATEWARD_JARS``.

    Args:
        app_name: Name shown by the cluster.
        state_partitions: Number of shuffle partitions; a checkpoint keeps the number it began with.
        extra: The stream's ``spark_conf``; wins over the defaults here.
    """
    from pyspark.sql import SparkSession

    # The workers must be this environment's Python, and must find this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    master = _master()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master)
        if folder := os.environ.get(ENV_JARS):
            builder = builder.config("spark.jars", ",".join(map(str, sorted(Path(folder).glob("*.jar")))))
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {
        **STREAM_CONF,
        **(_LOCAL_CONF if master.startswith("local") else {}),
        "spark.sql.shuffle.partitions": str(state_partitions),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(paths),
        **extra,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _quieten(session)
    return session


def start_coordinator(spark: SparkSession) -> None:
    """Let a session that has run no stream read a state.

    Without its state store coordinator Spark ends with "Cannot find endpoint", and it has none until it is
    asked for its queries.
    """
    _ = spark.streams.active


def _master() -> str:
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return _LOCAL_MASTER
    # The arguments of spark-submit are known to the JVM, to which there is no connection before this.
    SparkContext._ensure_initialized()
    return str(SparkConf().get("spark.master", _LOCAL_MASTER))


def _quieten(spark: SparkSession) -> None:
    """Silence loggers that warn of what is normal here: a line per new key, or per batch."""
    jvm: Any = spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    for name in _NOISY_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)
