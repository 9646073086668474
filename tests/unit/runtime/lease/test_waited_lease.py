"""A process waits for the lease of a driver that was killed on another host, and for no other."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from stateward.contract.process_identity import ProcessIdentity, host_identity
from stateward.runtime.lease.lease import Lease, LeaseHeldError

TTL_S = 20
ELSEWHERE = ProcessIdentity("other/boot", 7, 1.0)


class Clock:
    """A clock that a pause moves, and what else happens meanwhile."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.paused_s = 0.0
        self.is_still = False
        self.renewed: Lease | None = None

    def __call__(self) -> datetime:
        return self.now

    def pause(self, seconds: float) -> None:
        self.paused_s += seconds
        if not self.is_still:
            self.now += timedelta(seconds=seconds)
        if self.renewed is not None and self.paused_s >= 2:
            self.renewed.renew()


def lease(folder: Path, clock: Clock, holder: ProcessIdentity = ELSEWHERE) -> Lease:
    uri = f"file://{folder}/lease"
    return Lease(uri, stream="s", run_id="r", holder=holder, ttl_ms=TTL_S * 1000, clock=clock)


def test_the_lease_of_a_driver_that_is_dead_elsewhere_is_waited_for(tmp_path: Path) -> None:
    clock = Clock()
    lease(tmp_path, clock).acquire()
    clock.pause(5)
    operation = lease(tmp_path, clock)

    operation.acquire_when_expired(0, clock.pause)

    assert (operation.epoch, clock.paused_s) == (2, TTL_S)


def test_a_driver_elsewhere_that_renews_its_lease_is_not_waited_for(tmp_path: Path) -> None:
    clock = Clock()
    clock.renewed = lease(tmp_path, clock)
    clock.renewed.acquire()

    with pytest.raises(LeaseHeldError, match="stream s: the lease is held by run r"):
        lease(tmp_path, clock).acquire_when_expired(0, clock.pause)

    assert clock.paused_s == 2


def test_a_driver_that_lives_here_is_not_waited_for(tmp_path: Path) -> None:
    clock = Clock()
    here = ProcessIdentity(host_identity(), os.getpid(), psutil.Process().create_time())
    lease(tmp_path, clock, here).acquire()

    with pytest.raises(LeaseHeldError):
        lease(tmp_path, clock).acquire_when_expired(0, clock.pause)

    assert clock.paused_s == 0


def test_a_wait_ends_after_the_time_of_a_lease_also_when_the_holders_clock_is_ahead(tmp_path: Path) -> None:
    clock = Clock()
    lease(tmp_path, clock).acquire()
    clock.is_still = True

    with pytest.raises(LeaseHeldError):
        lease(tmp_path, clock).acquire_when_expired(0, clock.pause)

    assert TTL_S < clock.paused_s <= TTL_S + 1
