"""How a driver that does not get as far as its stream says why, without hiding the one that runs."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta

from stateward.contract import storage
from stateward.contract.process_identity import ProcessIdentity
from stateward.runtime.driver.cause import LEASE, Cause
from stateward.runtime.lease.lease import LeaseHeldError, utc_now
from stateward.runtime.telemetry.status import StatusFile

_FRESH = timedelta(seconds=10)
_LOG = logging.getLogger("stateward.driver")


def record_refusal(uri: str, status: StatusFile, error: LeaseHeldError, now: datetime) -> None:
    """Write ``refused``, unless the file is the fresh status of the lease's holder, which stays."""
    if not _belongs_to(uri, error.record.run_id, now):
        status.update(state="refused", message=str(error), cause=LEASE.to_json())


def record_bad_configuration(uri: str, process: ProcessIdentity, error: ValueError) -> None:
    """Write ``failed`` into the status that a configuration names, if it names one.

    Args:
        uri: The configuration, which is not what a driver needs.
        process: The process to signal.
        error: Why it is not.
    """
    try:
        document = storage.read_json(uri) or {}
    except ValueError:
        document = {}
    named = [document.get(name) for name in ("status_uri", "stream", "run_id")]
    if not all(isinstance(name, str) for name in named):
        _LOG.error("%s names no status to write this in", uri)
        return
    status_uri, stream, run_id = map(str, named)
    status = StatusFile(
        status_uri, stream=stream, run_id=run_id, process=process, python_pid=os.getpid(), clock=utc_now
    )
    cause = Cause("configuration", lasting=True)
    status.update(state="failed", message=str(error), cause=cause.to_json())


def _belongs_to(uri: str, run_id: str, now: datetime) -> bool:
    try:
        document = storage.read_json(uri) or {}
        written = datetime.fromisoformat(document["updated_at"]).astimezone(UTC)
        return bool(document["run_id"] == run_id and now - written < _FRESH)
    except (ValueError, KeyError, TypeError):
        return False
