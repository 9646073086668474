"""The Spark session of a driver: its settings for small batches, quiet logs and RocksDB state."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateward.contract.clients import s3
from stateward.contract.names import ENV_JARS, is_kubernetes, is_local
from stateward.contract.process_identity import is_submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).resolve().parents[2]
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
    # Our tables are small or append-only; the default of 50 tasks per log read dominates a small batch.
    "spark.databricks.delta.snapshotPartitions": "1",
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.rocksdb.boundedMemoryUsage": "true",
    f"{_STATE}.rocksdb.maxMemoryUsageMB": "128",
    f"{_STATE}.encodingFormat": "avro",
    "spark.sql.streaming.minBatchesToRetain": "100",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.worker.faulthandler.enabled": "true",
    # It is in the environment of workers that read and not of those that fold. With one environment Spark has
    # one daemon for both, and the workers that have read fold.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.python.daemon.module": "stateward.runtime.driver.worker_daemon",
    "spark.log.level": "WARN",
}

CODE_FACTORY = "spark.sql.codegen.factoryMode"
"""Setting: whether Spark generates code for expressions."""
NO_CODE = "NO_CODEGEN"

BATCH_ID_PROPERTY = "streaming.sql.batchId"
"""Local property of a task: the number of its batch (MicroBatchExecution.BATCH_ID_KEY)."""
QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""Local property of a task: the id of its query (StreamExecution.QUERY_ID_KEY)."""

# On a local disk Spark's default sets the permissions of each file, and without Hadoop's native library forks
# a process for that: 30 ms and more per file, ten files per batch. This manager also renames a finished file
# to its place, but its check for an existing file is not atomic; the lease excludes other writers.
_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}

# The UI of a driver is read behind Airflow's login, so it must not offer to end what Airflow supervises.
UI_CONF = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.ui.killEnabled": "false",
    "spark.ui.threadDumpsEnabled": "false",
    "spark.ui.heapHistogramEnabled": "false",
}

# Spark puts the keys of its environment into its settings of S3, and its executors' as well. The libraries in
# the executors' Python read the environment.
_S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# Spark's own pattern knows no underscore.
_REDACTED = "(?i)secret|password|token|access[._]?key"

# No other host has to reach a driver that is its own executor.
_LOCAL_CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_LOCAL_MASTER = "local[2]"
_PYTHONPATH = "spark.executorEnv.PYTHONPATH"
_DRIVER_PYTHON = "PYSPARK_DRIVER_PYTHON"
_WITHOUT_ARCHIVES = Path(__file__).resolve().parent / "spark_python.sh"
_NOISY_LOGGERS = (
    "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer",
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.util.SparkStringUtils",
    "org.apache.spark.sql.avro.AvroSerializer",
)


def checkpoint_conf(checkpoint_uri: str) -> dict[str, str]:
    """Settings for the storage of a checkpoint."""
    return _LOCAL_CHECKPOINT if checkpoint_uri.startswith("file:") else {}


def s3_conf(environment: Mapping[str, str], master: str) -> dict[str, str]:
    """Settings of S3, by the variables that other libraries read too.

    Args:
        environment: This process's.
        master: Where Spark runs. With a local one the driver is its own executor.
    """
    found = {**s3.hadoop_conf(environment), "spark.redaction.regex": _REDACTED}
    if is_local(master):
        return found
    # Kubernetes would show them in the pod of an executor, which has them from a Secret (docs/kubernetes.md).
    names = s3.PLACE if is_kubernetes(master) else (*_S3_KEYS, *s3.PLACE)
    sent = {name: environment[name] for name in names if name in environment}
    return found | {f"spark.executorEnv.{name}": value for name, value in sent.items()}


def storage_conf() -> dict[str, str]:
    """Settings of object storage for a session of this process."""
    return s3_conf(os.environ, _master())


def driver_conf(checkpoint_uri: str) -> dict[str, str]:
    """Settings of a driver: its UI, and the storage of its checkpoint."""
    return UI_CONF | checkpoint_conf(checkpoint_uri)


def create_session(app_name: str, state_partitions: int, extra: Mapping[str, str]) -> SparkSession:
    """Create or get the session.

    Under ``spark-submit`` master and JARs are its arguments. Otherwise, as in tests, the master is local and
    the JARs are those in the folder ``STATEWARD_JARS``.

    Args:
        app_name: Name shown by the cluster.
        state_partitions: Number of shuffle partitions; a checkpoint keeps its first number.
        extra: The stream's ``spark_conf``, which overrides the defaults.
    """
    from pyspark.sql import SparkSession

    # The workers must use the Python of this environment and find this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    master = _master()
    if not is_submitted():
        # The JVM has yet to be started, with this environment.
        os.environ.setdefault(_DRIVER_PYTHON, sys.executable)
        builder = builder.master(master)
        if folder := os.environ.get(ENV_JARS):
            builder = builder.config("spark.jars", ",".join(map(str, sorted(Path(folder).glob("*.jar")))))
    if is_local(master) and os.environ["PYSPARK_PYTHON"] == sys.executable:
        os.environ["PYSPARK_PYTHON"] = local_python(os.environ)
    paths = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = {
        **STREAM_CONF,
        **(_LOCAL_CONF if master.startswith("local") else {}),
        **storage_conf(),
        "spark.sql.shuffle.partitions": str(state_partitions),
        # Executors on a cluster are sent the code, and have none of this host's folders.
        _PYTHONPATH: _submitted(_PYTHONPATH) or paths,
        **extra,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _quieten(session)
    if settings.get(CODE_FACTORY) == NO_CODE:
        _generate_no_code(session)
    return session


def created_meanwhile(
    app_name: str, state_partitions: int, extra: Mapping[str, str]
) -> Callable[[], SparkSession]:
    """Call `create_session` in a thread; returns what waits for its result, or raises its error."""
    future: Future[SparkSession] = Future()

    def create() -> None:
        try:
            future.set_result(create_session(app_name, state_partitions, extra))
        except BaseException as error:
            future.set_exception(error)

    # A pool's thread would keep a driver that is refused from its end.
    threading.Thread(target=create, name="session", daemon=True).start()
    return future.result


def local_python(environment: Mapping[str, str]) -> str:
    """The interpreter for Spark's processes on this host, as `PYSPARK_PYTHON` takes it.

    A script that starts this interpreter without the archives, if this process has PySpark from a folder and
    the JVM's environment names the interpreter. Otherwise this interpreter.

    Args:
        environment: This process's, which is the JVM's where `spark-submit` has started both.
    """
    import pyspark

    is_installed = Path(pyspark.__file__).is_file()
    is_named = environment.get(_DRIVER_PYTHON) == sys.executable
    if is_installed and is_named and os.access(_WITHOUT_ARCHIVES, os.X_OK):
        return str(_WITHOUT_ARCHIVES)
    return sys.executable


def start_coordinator(spark: SparkSession) -> None:
    """Start the state store coordinator, so that a session that has run no stream can read states.

    Without it Spark fails with "Cannot find endpoint". The first access to the queries starts it.
    """
    _ = spark.streams.active


def _master() -> str:
    return _submitted("spark.master") or _LOCAL_MASTER


def _submitted(name: str) -> str | None:
    """A setting among the arguments of ``spark-submit``; None without it."""
    from pyspark import SparkConf, SparkContext

    if not is_submitted():
        return None
    # The JVM has the arguments; this connects to it.
    SparkContext._ensure_initialized()
    return SparkConf().get(name)


def _generate_no_code(spark: SparkSession) -> None:
    """Make `NO_CODE` the default of this JVM.

    The threads of Spark's state servers have no session, so they do not see its setting. They would generate
    code for each state variable and timer of each task: a fifth of the JVM's time.
    """
    jvm: Any = spark.sparkContext._jvm
    entry = jvm.org.apache.spark.sql.internal.SQLConf.CODEGEN_FACTORY_MODE()
    default = entry.getClass().getDeclaredField("_defaultValue")
    default.setAccessible(True)
    default.set(entry, jvm.org.apache.spark.sql.catalyst.expressions.CodegenObjectFactoryMode.NO_CODEGEN())


def _quieten(spark: SparkSession) -> None:
    """Silence loggers that warn about normal events, once per new key or batch."""
    jvm: Any = spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    for name in _NOISY_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)
