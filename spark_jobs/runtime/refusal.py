"""How a refused driver says so without hiding the one that runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spark_jobs.runtime import storage
from spark_jobs.runtime.lease import LeaseHeldError
from spark_jobs.runtime.status import StatusFile

_FRESH = timedelta(seconds=10)


def record_refusal(uri: str, status: StatusFile, error: LeaseHeldError, now: datetime) -> None:
    """Write ``refused``, unless the file is the fresh status of the lease's holder, which stays."""
    if not _belongs_to(uri, error.record.run_id, now):
        status.update(state="refused", message=str(error))


def _belongs_to(uri: str, run_id: str, now: datetime) -> bool:
    try:
        document = storage.read_json(uri) or {}
        written = datetime.fromisoformat(document["updated_at"]).astimezone(UTC)
        return bool(document["run_id"] == run_id and now - written < _FRESH)
    except (ValueError, KeyError, TypeError):
        return False
