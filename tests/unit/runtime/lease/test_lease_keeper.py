"""Renewals of a lease while the storage is full or unavailable, and after another holder took over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stateward.contract.process_identity import ProcessIdentity
from stateward.runtime.cause import DISK_FULL, cause_of
from stateward.runtime.lease.lease import Lease, LeaseLostError
from stateward.runtime.lease.lease_keeper import LeaseKeeper
from tests.support.small_disk import small_disk
from tests.support.waiting import PATIENCE_S, wait_until

START = datetime(2026, 1, 1, tzinfo=UTC)
ELSEWHERE = ProcessIdentity("other/boot/pid:[1]", 7, 1.0)
TTL_MS = 20_000


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def lease_at(folder: Path, run_id: str, clock: Clock) -> Lease:
    return Lease(
        f"file://{folder}/lease", stream="s", run_id=run_id, holder=ELSEWHERE, ttl_ms=TTL_MS, clock=clock
    )


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    return filler


@contextmanager
def keeping(lease: Lease, clock: Clock) -> Iterator[LeaseKeeper]:
    keeper = LeaseKeeper(lease, renew_ms=10, clock=clock)
    keeper.start()
    try:
        yield keeper
    finally:
        keeper.stop()


def renewed_at(folder: Path, clock: Clock) -> datetime | None:
    stored = lease_at(folder, "reader", clock).read()
    return stored.renewed_at if stored else None


def test_a_full_disk_takes_no_lease_away_but_lets_nobody_write(tmp_path: Path) -> None:
    clock = Clock()
    with small_disk(tmp_path / "disk", 256 * 4096) as disk:
        lease = lease_at(disk, "first", clock)
        lease.acquire()
        filler = fill(disk)
        clock.now = START + timedelta(minutes=5)
        keeper = LeaseKeeper(lease, renew_ms=10, clock=clock)
        with pytest.raises(Exception, match="No space left") as failure:
            keeper.check()
        assert cause_of(failure.value) == DISK_FULL, "which the driver waits for"

        with keeping(lease, clock) as keeper:
            before = renewed_at(disk, clock)
            filler.unlink()
            wait_until(
                lambda: renewed_at(disk, clock) == clock.now, PATIENCE_S, "it is renewed when there is room"
            )
            assert keeper.lost is None
            assert keeper.check() == 1
        assert before == START


def test_whoever_took_it_meanwhile_has_it(tmp_path: Path) -> None:
    clock = Clock()
    lease = lease_at(tmp_path, "first", clock)
    lease.acquire()
    clock.now = START + timedelta(minutes=5)
    lease_at(tmp_path, "second", clock).acquire()
    keeper = LeaseKeeper(lease, renew_ms=10, clock=clock)
    with pytest.raises(LeaseLostError, match="the lease is now at epoch 2 of run second"):
        keeper.check()
    assert keeper.lost is not None


def test_a_write_past_its_time_renews_it_first(tmp_path: Path) -> None:
    clock = Clock()
    lease = lease_at(tmp_path, "first", clock)
    lease.acquire()
    clock.now = START + timedelta(minutes=5)
    assert LeaseKeeper(lease, renew_ms=10, clock=clock).check() == 1
    assert renewed_at(tmp_path, clock) == clock.now


def test_a_storage_that_is_away_for_longer_takes_it_away(tmp_path: Path) -> None:
    clock = Clock()
    lease = lease_at(tmp_path, "first", clock)
    lease.acquire()
    (tmp_path / "lease" / "_delta_log").rename(tmp_path / "away")
    with keeping(lease, clock) as keeper:
        clock.now = START + timedelta(seconds=21)
        wait_until(lambda: keeper.lost, PATIENCE_S, "the lease is lost")
    assert "expired without a renewal" in str(keeper.lost)
