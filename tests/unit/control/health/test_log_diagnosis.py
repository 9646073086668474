"""The cause of a death that only the log has: from Java, Spark or Python, or none at all."""

from __future__ import annotations

import pytest

from stateward.alerts.incident_text import words_of_driver
from stateward.contract.stream_control import SILENT, Failure, FailureKind
from stateward.control.health.log_diagnosis import last_words

JAVA = """Error occurred during initialization of VM
Could not reserve enough space for 1048576000KB object heap
"""
COLLECTORS = """Error occurred during initialization of VM
Multiple garbage collectors selected
"""
SPARK = """26/02/03 14:29:58 WARN Utils: Your hostname resolves to a loopback address
Exception in thread "main" org.apache.spark.SparkException: Cannot load main class
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1052)
Caused by: java.io.FileNotFoundException: /jars/delta.jar (No such file or directory)
\tat java.base/java.io.FileInputStream.open0(Native Method)
\t... 7 more
26/02/03 14:29:59 INFO ShutdownHookManager: Shutdown hook called
"""
PYTHON = """Traceback (most recent call last):
  File "/code/spark_jobs/user_sessions/job.py", line 21, in <module>
    raise ValueError("not this one")
ModuleNotFoundError: No module named 'stateward.runtime.driver.entry'
26/02/03 14:29:59 INFO ShutdownHookManager: Shutdown hook called
"""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (JAVA, "Could not reserve enough space for 1048576000KB object heap"),
        (COLLECTORS, "Multiple garbage collectors selected"),
        ("Error occurred during initialization of VM\n", "Error occurred during initialization of VM"),
        (SPARK, "java.io.FileNotFoundException: /jars/delta.jar (No such file or directory)"),
        (PYTHON, "ModuleNotFoundError: No module named 'stateward.runtime.driver.entry'"),
        ('Exception in thread "main" java.lang.OutOfMemoryError: Java heap space', ": Java heap space"),
        (f"ValueError: {'x' * 5000}", "x" * 288),
        ("26/02/03 14:29:59 INFO SparkContext: Running Spark\nErrors: 0\n", ""),
        ("", ""),
    ],
)
def test_the_root_cause_is_said_in_one_line(log: str, expected: str) -> None:
    found = last_words(log)
    assert found.endswith(expected) and len(found) <= 300 and "\n" not in found
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("kind", "signal", "expected"),
    [
        ("not_started", None, "could not start"),
        ("gone", None, "It was killed, most often for lack of memory"),
        ("killed", "SIGKILL", "The kernel killed it for lack of memory"),
        ("killed", "SIGBUS", "It crashed"),
        ("reported", None, "The error is at the end"),
        ("ended", None, "The error is at the end"),
        ("hung", None, "A batch hangs"),
        ("out_of_memory", None, "Its container is too small"),
        ("evicted", None, "A person has ended it by the cluster's own commands"),
    ],
)
def test_what_is_likely_behind_a_failure_is_said_by_its_kind_and_not_by_its_words(
    kind: FailureKind, signal: str | None, expected: str
) -> None:
    words = "it says: driver process gone, killed by SIGKILL, killed by SIGSEGV"
    said = words_of_driver("s", Failure(kind, f"{SILENT}: {words}", signal), gave_up=True)
    assert said.likely_cause.startswith(expected) or expected in said.likely_cause
    assert words in said.cause
