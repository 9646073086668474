"""The lease of a stream, held while an operation runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stateward.contract.process_identity import driver_process
from stateward.runtime.api.config import Config
from stateward.runtime.lease.lease import Lease, LeaseHeldError, utc_now
from stateward.runtime.lease.lease_keeper import LeaseKeeper
from stateward.runtime.sink.fence import CheckLease, newest_epoch, take_over

_LOG = logging.getLogger(__name__)
_POLL_S = 0.5


def lease_of(config: Config, operation: str) -> Lease:
    """Return the lease of a stream for an operation of this process, not yet acquired."""
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
    acquire_when_expired(lease, newest_epoch(config.stream, config.tables.values()))
    keeper = LeaseKeeper(lease, config.lease.renew_ms, utc_now)
    keeper.start()
    try:
        yield keeper.check
    finally:
        keeper.stop()
        if keeper.lost is None:
            lease.release()


def acquire_when_expired(lease: Lease, after: int, pause: Callable[[float], object] = time.sleep) -> None:
    """Acquire a lease; wait for its end while its holder, whom this host cannot see, does not renew it.

    A driver that was killed on another host leaves its lease until it expires.

    Args:
        lease: The lease.
        after: The newest known epoch.
        pause: Waits for some seconds.

    Raises:
        LeaseHeldError: Its holder lives here, renews it, or its clock is ahead by more than the lease's time.
    """
    seen, left_s = None, 0.0
    while True:
        try:
            lease.acquire(after)
        except LeaseHeldError as error:
            record = error.record
            if seen is None:
                left_s = (record.expires_at - record.renewed_at).total_seconds() + _POLL_S
                _LOG.info("%s It is waited for at most %.0f s", error, left_s)
            is_here = record.holder.is_gone(lease.host) is False
            if is_here or left_s <= 0 or seen not in (None, record):
                raise
            seen = record
        else:
            return
        pause(_POLL_S)
        left_s -= _POLL_S


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
