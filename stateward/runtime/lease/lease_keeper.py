"""Keeps a lease alive in a thread, and tells when it is lost."""

from __future__ import annotations

import logging
import threading

from stateward.runtime.driver.cause import DISK_FULL, cause_of
from stateward.runtime.lease.lease import Clock, Lease, LeaseLostError

_LOG = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews ``lease`` every ``renew_ms`` milliseconds.

    A storage that is away is no loss yet: it is tried again until the lease has expired, because until then
    nobody on another host may take it. A full disk is none, however long: whoever takes the lease has to
    write to it, too.
    """

    def __init__(self, lease: Lease, renew_ms: int, clock: Clock) -> None:
        self._lease = lease
        self._renew_s = renew_ms / 1000
        self._clock = clock
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self.lost: LeaseLostError | None = None

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """End the renewals; the lease is left as it is."""
        self._stop.set()
        self._thread.join()

    def check(self) -> int:
        """The epoch, if a write is allowed now.

        Raises:
            LeaseLostError: It is not.
        """
        if self.lost is not None:
            raise self.lost
        with self._lock:
            try:
                if self._lease.has_expired(self._clock()):
                    # So that nobody takes it between this look and the write.
                    self._lease.renew()
                else:
                    self._lease.check()
            except LeaseLostError as error:
                self.lost = error
                raise
            return self._lease.epoch

    def _run(self) -> None:
        while not self._stop.wait(self._renew_s) and self.lost is None:
            try:
                with self._lock:
                    self._lease.renew()
            except LeaseLostError as error:
                self.lost = error
            except Exception as error:
                _LOG.warning("the lease could not be renewed, trying again: %s", error)
                if self._lease.has_expired(self._clock()) and cause_of(error) != DISK_FULL:
                    self.lost = LeaseLostError(f"the lease has expired without a renewal: {error}")
