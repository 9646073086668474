"""What every driver does first: read its configuration, and take the lease, or say who has it."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from stateward.contract.exit_codes import DriverExit
from stateward.contract.process_identity import ProcessIdentity, driver_process
from stateward.runtime.api.config import Config, ConfigError, load_config
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.driver.driver import Driver, StateChecks
from stateward.runtime.driver.refusal import record_bad_configuration, record_refusal
from stateward.runtime.lease.lease import Lease, LeaseHeldError, utc_now
from stateward.runtime.sink.fence import newest_epoch
from stateward.runtime.telemetry.status import StatusFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from stateward.runtime.api.any_job import AnyJob

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
    process = driver_process()
    try:
        config = load_config(arguments[0])
    except (ConfigError, ValueError) as error:
        return _bad_configuration(arguments[0], process, error)
    job = declaration(config.stream)
    try:
        require_topics(job, config)
    except ConfigError as error:
        return _bad_configuration(arguments[0], process, error)
    lease, status = _lease(config, process), _status(config, process)
    try:
        epoch = lease.acquire(newest_epoch(config.stream, config.tables.values())).epoch
    except LeaseHeldError as error:
        _LOG.error("%s", error)
        record_refusal(config.status_uri, status, error, utc_now())
        return DriverExit.REFUSED
    status.update(epoch=epoch)
    return Driver(job, config, lease, status, checks).run()


def _bad_configuration(uri: str, process: ProcessIdentity, error: ValueError) -> int:
    _LOG.error("%s", error)
    record_bad_configuration(uri, process, error)
    return DriverExit.FAILED


def require_topics(job: AnyJob, config: Config) -> None:
    """Make sure that the stream reads every topic it is given.

    Raises:
        ConfigError: It would read the first one only, and the lag would count all.
    """
    if len(config.topics) > 1 and not isinstance(job, LandingJob):
        raise ConfigError(
            f"stream {config.stream}: expected one topic, found {', '.join(config.topics)}: only a stream "
            "that lands records as they are reads several. Set `source.topic` in the stream's YAML to one of "
            "them, and make a stream for each of the others."
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
