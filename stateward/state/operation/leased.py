"""The lease of a stream, held while an operation runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stateward.contract.process_identity import driver_process
from stateward.runtime.api.config import Config
from stateward.runtime.lease.lease import Lease, utc_now
from stateward.runtime.lease.lease_keeper import LeaseKeeper
from stateward.runtime.sink.fence import CheckLease, newest_epoch, take_over


def lease_of(config: Config, operation: str) -> Lease:
    """Return the lease of a stream for an operation of this process, not yet acquired.

    Raises:
        JvmGoneError: The JVM that started this process has ended.
    """
    return Lease(
        config.lease.uri,
        stream=config.stream,
        run_id=operation,
        holder=driver_process(),
        ttl_ms=config.lease.ttl_ms,
    )


@contextmanager
def leased(config: Config, operation: str) -> Iterator[CheckLease]:
    """Hold the lease; yields a function that returns its epoch, and raises when the lease is lost.

    Raises:
        LeaseHeldError: The stream runs, or another operation on it does.
    """
    lease = lease_of(config, operation)
    lease.acquire_when_expired(newest_epoch(config.stream, config.tables.values()))
    keeper = LeaseKeeper(lease, config.lease.renew_ms, utc_now)
    keeper.start()
    try:
        yield keeper.check
    finally:
        keeper.stop()
        if keeper.lost is None:
            lease.release()


def unleased() -> int:
    """Refuse to write: the check of a dry run, which holds no lease.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError("nothing may be written without the lease")


def take_over_all(config: Config, check: CheckLease) -> None:
    """Let the tables of a stream refuse earlier holders of its lease.

    Raises:
        LeaseLostError: The lease is lost.
    """
    for uri in config.tables.values():
        take_over(uri, config.stream, check)
