"""The lease, on real Delta tables."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psutil
import pytest

from stateward.contract.process_identity import ProcessIdentity, host_identity
from stateward.runtime.lease import lease as lease_module
from stateward.runtime.lease.lease import Lease, LeaseHeldError, LeaseLostError

START = datetime(2026, 1, 1, tzinfo=UTC)
ELSEWHERE = ProcessIdentity("other/boot/pid:[1]", 7, 1.0)


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def this_process() -> ProcessIdentity:
    return ProcessIdentity(host_identity(), os.getpid(), psutil.Process().create_time())


def lease(
    folder: Path, run_id: str, holder: ProcessIdentity = ELSEWHERE, clock: Clock | None = None
) -> Lease:
    return Lease(
        f"file://{folder}/lease",
        stream="user_sessions",
        run_id=run_id,
        holder=holder,
        ttl_ms=20_000,
        clock=clock or Clock(),
    )


def test_a_second_holder_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    lease(tmp_path, "first").acquire()

    with pytest.raises(LeaseHeldError) as refusal:
        lease(tmp_path, "second").acquire()

    for expected in ("user_sessions", "first", "process 7", "other/boot", "epoch 1", "2026-01-01T00:00:20"):
        assert expected in str(refusal.value)


def test_a_holder_elsewhere_is_superseded_only_after_it_has_expired(tmp_path: Path) -> None:
    clock = Clock()
    first, second = lease(tmp_path, "first", clock=clock), lease(tmp_path, "second", clock=clock)
    first.acquire()
    clock.now = START + timedelta(milliseconds=19_999)
    with pytest.raises(LeaseHeldError):
        second.acquire()
    clock.now = START + timedelta(milliseconds=20_000)

    assert second.acquire().epoch == 2
    with pytest.raises(LeaseLostError, match="epoch 2 of run second"):
        first.renew()
    with pytest.raises(LeaseLostError):
        first.check()
    second.check()


def test_a_renewal_prolongs(tmp_path: Path) -> None:
    clock = Clock()
    first = lease(tmp_path, "first", clock=clock)
    first.acquire()
    clock.now = START + timedelta(seconds=15)
    first.renew()
    clock.now = START + timedelta(seconds=30)

    with pytest.raises(LeaseHeldError):
        lease(tmp_path, "second", clock=clock).acquire()
    assert not first.has_expired(clock.now)


def test_a_table_that_is_gone_is_a_lease_that_is_lost(tmp_path: Path) -> None:
    first = lease(tmp_path, "first")
    first.acquire()
    first.check()
    shutil.rmtree(tmp_path / "lease")

    with pytest.raises(LeaseLostError, match="is gone"):
        first.check()


def test_a_holder_that_slept_notices_a_successor_whose_first_commits_are_cleaned_away(tmp_path: Path) -> None:
    clock = Clock()
    first, second = lease(tmp_path, "first", clock=clock), lease(tmp_path, "second", clock=clock)
    first.acquire()
    clock.now = START + timedelta(hours=2)
    second.acquire()
    for _ in range(20):
        second.renew()
    log = tmp_path / "lease" / "_delta_log"
    for number in range(10):
        (log / f"{number:020d}.json").unlink()

    with pytest.raises(LeaseLostError, match="epoch 2 of run second"):
        first.check()
    second.check()


def test_a_released_lease_is_free_at_once(tmp_path: Path) -> None:
    first = lease(tmp_path, "first")
    first.acquire()
    first.release()

    assert lease(tmp_path, "second").acquire().epoch == 2
    with pytest.raises(LeaseLostError):
        first.check()


def test_a_living_process_of_this_host_keeps_an_expired_lease(tmp_path: Path) -> None:
    clock = Clock()
    lease(tmp_path, "first", this_process(), clock).acquire()
    clock.now = START + timedelta(days=1)

    with pytest.raises(LeaseHeldError):
        lease(tmp_path, "second", this_process(), clock).acquire()


def test_a_dead_process_of_this_host_is_superseded_at_once(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    holder = ProcessIdentity(host_identity(), ended.pid, psutil.Process(ended.pid).create_time())
    lease(tmp_path, "first", holder).acquire()
    ended.wait()

    assert lease(tmp_path, "second", this_process()).acquire().epoch == 2


def test_a_process_id_used_again_is_not_taken_for_the_holder(tmp_path: Path) -> None:
    stale = ProcessIdentity(host_identity(), os.getpid(), psutil.Process().create_time() - 100)
    lease(tmp_path, "first", stale).acquire()

    assert lease(tmp_path, "second", this_process()).acquire().epoch == 2


def _claim(folder: str, number: int, barrier: Barrier, results: Queue[tuple[int, object]]) -> None:
    try:
        claimant = lease(Path(folder), f"run-{number}", this_process())
        barrier.wait(timeout=60)
        results.put((number, claimant.acquire().epoch))
    except LeaseHeldError:
        results.put((number, None))
    except Exception as error:
        results.put((number, repr(error)))
    barrier.wait()  # no process exits, and so releases the lease, before all have tried


def test_of_many_processes_that_claim_at_once_exactly_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(4), context.Queue()
    claimants = [
        # Daemons, so that a hanging process does not block the end of the test run.
        context.Process(target=_claim, args=(str(tmp_path), number, barrier, results), daemon=True)
        for number in range(4)
    ]
    for claimant in claimants:
        claimant.start()
    outcomes = [results.get(timeout=60) for _ in claimants]
    for claimant in claimants:
        claimant.join(timeout=60)

    assert [epoch for _, epoch in outcomes if epoch is not None] == [1]
    stored = lease(tmp_path, "reader").read()
    assert stored is not None
    assert (stored.run_id, stored.epoch) == next((f"run-{n}", e) for n, e in outcomes if e is not None)


def test_renewals_do_not_fill_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expired_at_once = {
        **lease_module._TABLE_CONFIGURATION,
        "delta.logRetentionDuration": "interval 0 seconds",
        "delta.deletedFileRetentionDuration": "interval 0 seconds",
        "delta.checkpointInterval": "10",
    }
    monkeypatch.setattr(lease_module, "_TABLE_CONFIGURATION", expired_at_once)
    monkeypatch.setattr(lease_module, "_COMMITS_PER_CLEANUP", 20)
    first = lease(tmp_path, "first")
    first.acquire()

    for _ in range(65):
        first.renew()

    assert len(list((tmp_path / "lease").glob("*.parquet"))) <= 25
    assert len(list((tmp_path / "lease" / "_delta_log").glob("*.json"))) <= 25
    first.check()
