"""The start of a driver: read the configuration and acquire the lease, or report why that failed."""

from __future__ import annotations

import logging
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from stateward.contract import storage
from stateward.contract.process_identity import JvmGoneError, ProcessIdentity
from stateward.contract.process_output import DriverExit
from stateward.contract.reading import as_json
from stateward.contract.stream_status import Cause
from stateward.runtime import session
from stateward.runtime.api.any_job import configured
from stateward.runtime.api.config import Config, ConfigError, load_config
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.cause import LEASE
from stateward.runtime.delta.lookup_tables import LookupInvalidError, configured_tables
from stateward.runtime.driver.driver import Driver
from stateward.runtime.driver.jvm_watchdog import ParentJvm
from stateward.runtime.driver.state_checks import StateChecks
from stateward.runtime.lease.lease import Lease, LeaseHeldError, utc_now
from stateward.runtime.query.stream_query import session_conf
from stateward.runtime.sink.fence import newest_epoch
from stateward.runtime.telemetry.status import StatusFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from stateward.runtime.api.any_job import AnyJob


_FRESH = timedelta(seconds=10)
_LOG = logging.getLogger("stateward.driver")


def run(declaration: Callable[[str], AnyJob], arguments: list[str], checks: StateChecks) -> int:
    """Run the stream that a configuration is for.

    Args:
        declaration: Finds the declaration of a stream.
        arguments: One, the URI of the configuration.
        checks: What is checked of the state before the query starts.

    Returns:
        The exit code.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if len(arguments) != 1:
        print("usage: spark-submit driver.py <URI of the configuration>", file=sys.stderr)  # noqa: T201
        return DriverExit.FAILED
    try:
        jvm = ParentJvm()
    except JvmGoneError as error:
        _LOG.error("%s", error)
        return DriverExit.FAILED
    jvm.lower_compilers()
    return _run_with(jvm, declaration, arguments[0], checks)


def _run_with(jvm: ParentJvm, declaration: Callable[[str], AnyJob], uri: str, checks: StateChecks) -> int:
    process = jvm.process
    try:
        config = load_config(uri)
    except (ConfigError, ValueError) as error:
        return _bad_configuration(uri, process, error)
    try:
        job = configured(declaration(config.stream), config)
        require_topics(job, config)
        configured_tables(config.stream, getattr(job, "lookups", ()), config.lookups)
    except (ConfigError, LookupInvalidError) as error:
        return _bad_configuration(uri, process, error)
    # The JVM takes seconds to start a context. A driver that is refused has started it in vain.
    spark = session.created_meanwhile(
        f"stateward-{config.stream}",
        config.state_partitions,
        {**session.driver_conf(config.checkpoint_uri), **session_conf(job, config), **config.spark_conf},
    )
    lease, status = _lease(config, process), _status(config, process)
    try:
        epoch = lease.acquire_when_expired(newest_epoch(config.stream, config.tables.values()))
    except LeaseHeldError as error:
        _LOG.error("%s", error)
        record_refusal(config.status_uri, status, error, utc_now())
        return DriverExit.REFUSED
    status.update(epoch=epoch)
    return Driver(job, config, lease, status, checks, session=spark, jvm=jvm).run()


def _bad_configuration(uri: str, process: ProcessIdentity, error: ValueError) -> int:
    _LOG.error("%s", error)
    record_bad_configuration(uri, process, error)
    return DriverExit.FAILED


def require_topics(job: AnyJob, config: Config) -> None:
    """Check that the stream can read all configured topics.

    Raises:
        ConfigError: A stream on Spark's own operators has another number of topics than its declaration; or
            topics have settings of a watermark of their own, which only such a stream has.
    """
    has_own_watermarks = isinstance(job, NativeJob) and bool(job.inputs)
    if config.lateness_by_topic_ms and not has_own_watermarks:
        raise ConfigError(
            f"stream {config.stream}: expected no `event_time.by_topic`, found "
            f"{', '.join(sorted(config.lateness_by_topic_ms))}: all topics of this stream have one "
            "watermark. Remove it, and let `event_time.allowed_lateness` cover the topic that is behind."
        )
    if not isinstance(job, NativeJob):
        return
    expected = [one.name for one in job.inputs] or ["one topic"]
    if len(config.topics) != len(expected):
        raise ConfigError(
            f"stream {config.stream}: expected {', '.join(expected)}, found {', '.join(config.topics)}. Name "
            "in `source.topics` of the stream's YAML a topic for each input of its declaration, in their "
            "order; in `source.topic` the topic of a stream with one."
        )


def _lease(config: Config, process: ProcessIdentity) -> Lease:
    return Lease(
        config.lease.uri,
        stream=config.stream,
        run_id=config.run_id,
        holder=process,
        ttl_ms=config.lease.ttl_ms,
    )


def _status(config: Config, process: ProcessIdentity) -> StatusFile:
    return StatusFile(
        config.status_uri,
        stream=config.stream,
        run_id=config.run_id,
        process=process,
        python_pid=os.getpid(),
        clock=utc_now,
    )


def record_refusal(uri: str, status: StatusFile, error: LeaseHeldError, now: datetime) -> None:
    """Write the status ``refused``, unless the file has the current status of the lease's holder."""
    if not _belongs_to(uri, error.record.run_id, now):
        status.update(state="refused", message=str(error), cause=as_json(LEASE))


def record_bad_configuration(uri: str, process: ProcessIdentity, error: ValueError) -> None:
    """Write the status ``failed``, if the invalid configuration names a status file.

    Args:
        uri: The configuration.
        process: The process to signal.
        error: Why the configuration is invalid.
    """
    try:
        document = storage.read_json(uri) or {}
    except ValueError:
        document = {}
    named = [document.get(name) for name in ("status_uri", "stream", "run_id")]
    if not all(isinstance(name, str) for name in named):
        _LOG.error("%s names no status file for this error", uri)
        return
    status_uri, stream, run_id = map(str, named)
    status = StatusFile(
        status_uri, stream=stream, run_id=run_id, process=process, python_pid=os.getpid(), clock=utc_now
    )
    cause = Cause("configuration", lasting=True)
    status.update(state="failed", message=str(error), cause=as_json(cause))


def _belongs_to(uri: str, run_id: str, now: datetime) -> bool:
    try:
        document = storage.read_json(uri) or {}
        written = datetime.fromisoformat(document["updated_at"]).astimezone(UTC)
        return bool(document["run_id"] == run_id and now - written < _FRESH)
    except (ValueError, KeyError, TypeError):
        return False
