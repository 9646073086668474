"""Renews a lease in a thread and notices its loss."""

from __future__ import annotations

import logging
import threading
import time

from stateward.runtime.cause import DISK_FULL, STORAGE, cause_of, one_line
from stateward.runtime.lease.lease import Clock, Lease, LeaseLostError

_LOG = logging.getLogger(__name__)
_KEEPS_OTHERS_OUT = (DISK_FULL, STORAGE)
_LONGEST = 300


class LeaseKeeper:
    """Renews ``lease`` every ``renew_ms`` milliseconds.

    While the storage is unavailable, renewal is retried until the lease has expired: before that no process
    on another host may acquire it. On a full disk, and while an object store refuses requests, the lease is
    not lost even then, because a new holder would have to write to the same storage.

    Attributes:
        lost: Why the lease is lost; None while it is not.
        trouble: What is wrong with the storage, by the last renewal; empty if nothing is.
    """

    def __init__(self, lease: Lease, renew_ms: int, clock: Clock) -> None:
        self._lease = lease
        self._renew_s = renew_ms / 1000
        self._clock = clock
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self.lost: LeaseLostError | None = None
        self.trouble = ""

    def start(self) -> None:
        """Start the renewals."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the renewals; the lease itself is not released."""
        self._stop.set()
        self._thread.join()

    def check(self) -> int:
        """Return the epoch if a write is allowed now.

        Raises:
            LeaseLostError: The lease is lost.
        """
        if self.lost is not None:
            raise self.lost
        with self._lock:
            try:
                if self._lease.has_expired(self._clock()):
                    # Otherwise another process could acquire it between this check and the write.
                    self._lease.renew()
                else:
                    self._lease.check()
            except LeaseLostError as error:
                self.lost = error
                raise
            return self._lease.epoch

    def _run(self) -> None:
        while not self._stop.wait(self._renew_s) and self.lost is None:
            begun = time.monotonic()
            try:
                with self._lock:
                    self._lease.renew()
                took_s = time.monotonic() - begun
                slow = f"the storage is slow: the last renewal of the lease took {took_s:.0f} s"
                self.trouble = slow if took_s > self._renew_s else ""
            except LeaseLostError as error:
                self.lost = error
            except Exception as error:
                _LOG.warning("the lease could not be renewed, trying again: %s", error)
                said = one_line(str(error))[:_LONGEST]
                self.trouble = f"the storage does not take the renewal of the lease, trying again: {said}"
                if self._lease.has_expired(self._clock()) and cause_of(error) not in _KEEPS_OTHERS_OUT:
                    self.lost = LeaseLostError(f"the lease has expired without a renewal: {error}")
