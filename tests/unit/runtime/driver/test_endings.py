"""How drivers end: lasting and transient causes, and how they are reported."""

from __future__ import annotations

import errno
import json
import os
import traceback
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from stateward.contract.process_output import DriverExit
from stateward.contract.stream_status import Cause
from stateward.driver import run
from stateward.runtime.api.config import ConfigError
from stateward.runtime.api.state_step import MissingStepError
from stateward.runtime.cause import DISK_FULL, LEASE, OTHER, STORAGE, cause_of
from stateward.runtime.checkpoint.generations import PendingOperationError
from stateward.runtime.checkpoint.offsets import DataLossError
from stateward.runtime.driver.ending import ending_of
from stateward.runtime.driver.failure import explain, is_transient
from stateward.runtime.driver.retries import Retries
from stateward.runtime.kafka.broker import Broker, BrokerAwayError, TopicMissingError
from stateward.runtime.keyed.state_upgrade import UpgradeError
from stateward.runtime.lease.lease import LeaseLostError
from stateward.runtime.sink.output_rows import SchemaError
from tests.support.spark import stand_in_jvm

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FULL = OSError(errno.ENOSPC, "No space left on device")

IN_A_WORKER = """[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: Job aborted due \
to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 (TID 5) \
(h executor driver): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark_jobs/runtime/kafka_reader.py", line 120, in _is_wanted
    raise _refusal(error, topic, partition)
{error}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)

Driver stacktrace: SQLSTATE: XXKST
=== Streaming Query ===
Identifier: user_sessions [id = 1-2, runId = 3-4]
Logical Plan:
WriteToMicroBatchDataSource ForeachBatchSink, ValueError: a column of the plan"""


def in_a_worker(error: str) -> Exception:
    return RuntimeError(IN_A_WORKER.format(error=error))


def traceback_of(error: Exception) -> str:
    """The text that Spark's Python processes and py4j pass to the JVM."""
    try:
        raise error
    except type(error):
        return traceback.format_exc()


class JvmError(RuntimeError):
    """The error that PySpark raises for an exception in the JVM."""

    def __init__(self, stack: str) -> None:
        super().__init__(
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Writing failed"
        )
        self._stackTrace = stack


def chained(inner: Exception) -> Exception:
    error = RuntimeError("the batch is not committed")
    error.__cause__ = inner
    return error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (TopicMissingError("x"), Cause("topic", lasting=True)),
        (PendingOperationError("x"), Cause("operation", lasting=True)),
        (ConfigError("x"), Cause("configuration", lasting=True)),
        (SchemaError("x"), Cause("schema", lasting=True)),
        (DataLossError("x"), Cause("data_loss", lasting=True)),
        (MissingStepError("x"), Cause("state", lasting=True)),
        (UpgradeError("x"), Cause("state", lasting=True)),
        (in_a_worker(traceback_of(DataLossError("gone"))), Cause("data_loss", lasting=True)),
        (in_a_worker("_internal.SchemaMismatchError: Cannot cast"), Cause("schema", lasting=True)),
        (
            JvmError("Caused by: x: [STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema"),
            Cause("state", lasting=True),
        ),
        (chained(DataLossError("x")), Cause("data_loss", lasting=True)),
        (LeaseLostError("x"), LEASE),
        (FULL, DISK_FULL),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), DISK_FULL),
        (JvmError("Caused by: java.io.IOException: No space left on device"), DISK_FULL),
        (chained(FULL), DISK_FULL),
        (in_a_worker("OSError: [Errno 28] No space left on device: '/cache/0'"), DISK_FULL),
        (chained(OSError(errno.EBUSY, "Please reduce your request rate.")), STORAGE),
        (
            in_a_worker(
                "botocore.exceptions.ClientError: An error occurred (503) when calling the HeadObject"
                " operation (reached max retries: 4): Service Unavailable"
            ),
            STORAGE,
        ),
        (
            OSError(
                "Generic S3 error\n \x1b[31m↳\x1b[0m Error performing GET http://h/b/k, after 10 retries\n"
                " \x1b[31m↳\x1b[0m 503 Service Unavailable"
            ),
            STORAGE,
        ),
        (
            JvmError(
                "Caused by: org.apache.hadoop.fs.s3a.AWSServiceThrottledException: getFileStatus on s3a://b/k:"
                " S3Exception: Please slow down. (Service: S3, Status Code: 503, Request ID: null)"
            ),
            STORAGE,
        ),
        (RuntimeError("Python worker exited unexpectedly (crashed)"), OTHER),
        (RuntimeError("java.lang.OutOfMemoryError: Java heap space"), OTHER),
        # A wrong checksum may be a single read error of the disk.
        (RuntimeError("[STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED] Row checksum"), OTHER),
    ],
    ids=lambda value: value.kind if isinstance(value, Cause) else str(value)[-40:].replace("\n", " "),
)
def test_only_what_is_known_to_last_is_called_lasting(error: Exception, cause: Cause) -> None:
    assert cause_of(error) == cause


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissingError),
        (KafkaError.LEADER_NOT_AVAILABLE, BrokerAwayError),
    ],
)
def test_a_topic_without_a_leader_yet_is_waited_for_and_is_not_missing(
    code: int, raised: type[Exception]
) -> None:
    class Admin:
        """A STAND-IN for the client, which needs a server: one that reports the topic with an error."""

        def list_topics(self, timeout: float) -> SimpleNamespace:
            return SimpleNamespace(topics={"t": SimpleNamespace(error=KafkaError(code), partitions={})})

        def poll(self, timeout: float) -> None:
            """Do nothing."""

    broker = Broker("localhost:1")
    broker._client = cast(Any, Admin())
    with pytest.raises(raised):
        broker.ensure_topic("t", 3, create=False, stream="s")


def test_a_partition_made_a_moment_ago_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Any] = [KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)), 7]

    class Admin:
        """A STAND-IN for the client, which needs a server: it returns given answers one by one."""

        def __init__(self, settings: object) -> None:
            pass

        def list_offsets(self, wanted: dict[Any, Any], **_: object) -> dict[Any, Future[SimpleNamespace]]:
            [partition], found = wanted, Future[SimpleNamespace]()
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                found.set_exception(answer)
            else:
                found.set_result(SimpleNamespace(offset=answer))
            return {partition: found}

        def poll(self, timeout: float) -> None:
            """Do nothing."""

    monkeypatch.setattr("stateward.runtime.kafka.broker.AdminClient", Admin)
    assert Broker("localhost:1").end_offsets("t", 1) == {0: 7}
    answers.append(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    with pytest.raises(BrokerAwayError):
        Broker("localhost:1").end_offsets("t", 1)
    assert not answers


def test_a_full_disk_may_pass_and_lost_records_do_not_whatever_else_failed_with_them() -> None:
    assert is_transient(JvmError("Caused by: java.io.IOException: No space left on device"))
    assert is_transient(chained(FULL))
    both = in_a_worker(f"{traceback_of(DataLossError('gone'))}\nPython worker exited unexpectedly")
    assert not is_transient(both)
    assert not is_transient(OSError(errno.EACCES, "Permission denied"))


def test_the_reason_is_the_errors_own_message_and_neither_code_nor_plan() -> None:
    said = explain(in_a_worker(traceback_of(DataLossError("topic t: the records are gone"))))
    assert said.startswith(
        "stateward.runtime.checkpoint.offsets.DataLossError: topic t: the records are gone (in RuntimeErr"
    )
    assert "ValueError: a column" not in said
    assert "STREAM_FAILED" not in said
    assert "STATEWARD_DATA_LOSS" not in said


def test_a_condition_of_spark_without_a_class_is_said_without_the_plan() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [STATE_STORE_INVALID_PROVIDER]"
        " The given provider is none. SQLSTATE: 42K06 SQLSTATE: XXKST\n"
        "=== Streaming Query ===\nIdentifier: s [id = 1]"
    )
    assert explain(RuntimeError(text)) == (
        "RuntimeError: [STATE_STORE_INVALID_PROVIDER] The given provider is none."
    )


def test_whatever_fails_after_the_lease_was_lost_may_come_of_that() -> None:
    lost = LeaseLostError("run r2 has it")
    ending = ending_of(TopicMissingError("x"), lost)
    assert (ending.code, ending.message, ending.cause) == (DriverExit.LEASE_LOST, "run r2 has it", LEASE)
    assert ending_of(lost, None) == ending
    assert ending_of(TopicMissingError("x"), None).code == DriverExit.FAILED


def test_retries_are_counted_between_commits_and_a_full_disk_has_more_of_them() -> None:
    retries = Retries()
    delays = []
    for _ in range(6):
        retries.note(7)
        delays.append(retries.delay_s)
    assert delays == [1, 2, 4, 8, 15, 15]
    assert retries.exhausted(OTHER)
    assert not retries.exhausted(DISK_FULL)
    assert not retries.exhausted(STORAGE)
    for _ in range(60):
        retries.note(7)
    assert retries.exhausted(DISK_FULL)
    retries.note(8)
    assert (retries.failures, retries.exhausted(OTHER), retries.delay_s) == (1, False, 1)


def test_a_configuration_that_a_driver_cannot_use_is_said_in_the_status_it_names(tmp_path: Path) -> None:
    file, status = tmp_path / "config.json", tmp_path / "status.json"
    named = {"stream": "s", "run_id": "r1", "status_uri": f"file://{status}"}
    file.write_text(json.dumps({"version": 99, **named}))

    assert run([f"file://{file}"]) == DriverExit.FAILED

    written = json.loads(status.read_text())
    assert (written["run_id"], written["state"]) == ("r1", "failed")
    assert written["cause"] == {"kind": "configuration", "lasting": True}
    assert "expected version 1, found 99: start the driver with the same release" in written["message"]
    status.unlink()
    file.write_text("{half a docum")
    assert run([f"file://{file}"]) == DriverExit.FAILED
    assert not status.exists()


ORPHAN = """
import os, sys
from stateward.runtime.driver.jvm_watchdog import ParentJvm

jvm = ParentJvm()
print(os.getpid(), flush=True)
input()
error = {error}
print(repr(jvm.root_cause(error)), flush=True)
"""


@pytest.mark.parametrize(
    "error", ["ConnectionRefusedError(111, 'Connection refused')", "ValueError('some other')"]
)
@pytest.mark.parametrize("killed", [True, False])
def test_what_fails_without_the_jvm_is_said_of_the_jvm(error: str, killed: bool) -> None:
    """Another Python process STANDS IN for the JVM, the parent of the driver's process."""
    reader, writer = os.pipe()
    jvm = stand_in_jvm.start("-c", ORPHAN.format(error=error), stdin=reader)
    assert jvm.stdout is not None
    assert int(jvm.stdout.readline()) != jvm.pid
    if killed:
        jvm.kill()
        jvm.wait()  # then its child has another parent
    os.write(writer, b"\n")
    said = jvm.stdout.readline()
    jvm.stdout.close()
    jvm.wait()
    os.close(reader)
    os.close(writer)
    expected = f'JvmGoneError("the driver\'s JVM (process {jvm.pid}) is gone")' if killed else error
    assert said.strip() == expected
