"""Compares what the executors of a cluster have with what the driver has, before the query starts.

A local driver is its own executor, and pays nothing. Executors that come later are not compared.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.names import is_local
from stateward.runtime.cause import full_text
from stateward.runtime.driver.executors import executor_count

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

_POLL_S = 0.5
_GROUP = "stateward-versions"
_ROUNDS = 3
_DIGITS = 12
# What is called on executors; the rest of the library is the driver's.
_LIBRARY = ("contract", "runtime")
_JVM_VERSION = "java_method('org.apache.spark.package', 'SPARK_VERSION')"

# What a job fails with when an executor cannot run the driver's Python code at all.
_UNFIT = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\][^\n]*|Cannot run program [^\n]*"
    r"|(?:ModuleNotFoundError: )?No module named [^\n]*|ImportError: [^\n]*"
)


class ExecutorsDifferError(ConditionError, RuntimeError):
    """Executors have another Spark, Python or code than the driver."""

    condition = Condition.EXECUTORS_DIFFER


class Installed(NamedTuple):
    """What one executor or the driver has.

    Attributes:
        executor: Its host, and a number that tells it from others of that host.
        spark: The version of Spark's JARs.
        pyspark: The version of the Python package.
        python: Major and minor version.
        library: A digest of the library's modules that executors run.
        stream: A digest of the stream's package.
    """

    executor: str
    spark: str
    pyspark: str
    python: str
    library: str
    stream: str


_NAMES = {"spark": "Spark", "pyspark": "PySpark", "python": "Python"}
_CODE = {"library": "the library stateward", "stream": "the stream's package"}


def differences(own: Installed, others: Iterable[Installed]) -> list[str]:
    """Say in which versions executors differ from the driver, one sentence for each of them."""
    found = []
    for other in sorted(set(others)):
        parts = [
            f"{shown} {getattr(other, name)} instead of {getattr(own, name)}"
            for name, shown in _NAMES.items()
            if getattr(other, name) != getattr(own, name)
        ]
        parts += [
            f"another content of {shown}"
            for name, shown in _CODE.items()
            if getattr(other, name) != getattr(own, name)
        ]
        if parts:
            found.append(f"executor {other.executor} has {', '.join(parts)}")
    return found


def installed(executor: str, spark: str, stream: str) -> Installed:
    """What this process has."""
    import pyspark

    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    code = _digest(importlib.resources.files("stateward") / one for one in _LIBRARY)
    package = _digest([importlib.resources.files("spark_jobs") / stream])
    return Installed(executor, spark, pyspark.__version__, python, code, package)


def _digest(folders: Iterable[Traversable]) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for name, module in sorted(_modules(folder, folder.name)):
            digest.update(f"{name}\0".encode())
            digest.update(module.read_bytes())
    return digest.hexdigest()[:_DIGITS]


def _modules(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for member in folder.iterdir():
        name = f"{path}/{member.name}"
        if member.name.endswith(".py"):
            yield name, member
        elif member.is_dir() and member.name != "__pycache__":
            yield from _modules(member, name)


def require_same(spark: SparkSession, stream: str, should_stop: Callable[[], bool]) -> None:
    """Compare what the executors of a session have with what the driver has; nothing on a local master.

    Args:
        spark: The session.
        stream: The stream's name.
        should_stop: Whether the driver is asked to leave, which ends the comparison.

    Raises:
        ExecutorsDifferError: They differ, or cannot run the driver's code at all.
    """
    master = str(spark.sparkContext.master)
    if is_local(master):
        return
    question = _Question(spark, stream)
    with ThreadPoolExecutor(1, thread_name_prefix="versions") as pool:
        job = pool.submit(question.answers)
        try:
            while not job.done() and not should_stop():
                threading.Event().wait(_POLL_S)
        finally:
            # Otherwise the pool waits for the job, and the job for executors.
            if not job.done():
                question.cancel()
        if should_stop():
            return
    said = _difference(installed("driver", str(spark.version), stream), job)
    if said:
        raise ExecutorsDifferError(
            f"stream {stream}: expected the executors of {master} to have what the driver has, found: {said}."
            " Give the executors this Python environment by the setting executor_python, and the cluster this"
            " Spark (docs/spark-and-storage.md)."
        )


def _difference(own: Installed, job: Future[list[Installed]]) -> str:
    error = job.exception()
    if error is None:
        return "; ".join(differences(own, job.result()))
    unfit = _UNFIT.search(full_text(error))
    if unfit is None:
        raise error
    return f"an executor cannot run its code: {unfit.group(0).strip()}"


class _Question:
    """The job that asks the executors."""

    def __init__(self, spark: SparkSession, stream: str) -> None:
        self._spark = spark
        self._stream = stream

    def cancel(self) -> None:
        # Jobs that have not begun too, for which Python has no call.
        context: Any = self._spark.sparkContext._jsc.sc()
        context.cancelJobGroupAndFutureJobs(_GROUP)

    def answers(self) -> list[Installed]:
        self._spark.sparkContext.setJobGroup(_GROUP, "the versions of the executors", interruptOnCancel=True)
        found: set[Installed] = set()
        for _ in range(_ROUNDS):
            found |= set(self._round())
            if len({one.executor for one in found}) >= executor_count(self._spark.sparkContext):
                break
        return sorted(found)

    def _round(self) -> Iterator[Installed]:
        """Ask as many tasks as there are cores; Spark deals them out to all executors, one by one."""
        context = self._spark.sparkContext
        tasks = max(context.defaultParallelism, executor_count(context), 1)
        asked = self._spark.range(0, tasks, 1, tasks).selectExpr(f"{_JVM_VERSION} AS spark")
        schema = ", ".join(f"{name} string" for name in Installed._fields)
        for row in asked.mapInArrow(_Reporter(self._stream), schema).collect():
            yield Installed(*row)


class _Reporter:
    """Runs on executors: adds to the version of their JVM what their Python has."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def __call__(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        import pyarrow

        for batch in batches:
            rows = [installed(_executor(), str(spark), self._stream) for spark in batch.column(0).to_pylist()]
            yield pyarrow.RecordBatch.from_pylist([row._asdict() for row in rows])


def _executor() -> str:
    import socket

    # The JVM of the executor has started the daemon, and that this process.
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    return f"{socket.gethostname()}/{daemon.rpartition(')')[2].split()[1]}"
