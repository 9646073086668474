"""A writer that pauses between its check of the lease and its commit, while other drivers continue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from stateward.runtime.api.tables import DEAD_LETTERS, LATE_EVENTS, Table
from stateward.runtime.checkpoint import generations
from stateward.runtime.lease.lease import Lease, LeaseLostError
from stateward.runtime.sink.fence import newest_epoch, take_over
from stateward.runtime.sink.ledger import Ledger
from stateward.runtime.sink.sink import BatchSink
from stateward.state.operation.leased import take_over_all
from tests.support.state.installed_stream import ALERTS, NOW, STATUS, STREAM, Installed
from tests.unit.runtime.sink.test_sink import Batch, counts, part

ELSEWHERE = "other/boot/pid:[1]"
LETTER = ("device_readings", 0, 7, 2_000, b"k", b"\xff", "not_utf8", "the value is not UTF-8")
LATE = ("device_readings", 0, 8, 2_000, "e1", "d", 900, 1_000, b"{}")


def row_of(table: Table) -> tuple[object, ...]:
    return tuple("stale" if column.type == "string" else None for column in table.row_columns)


FULL = Batch(
    part(ALERTS, row_of(ALERTS)),
    part(STATUS, row_of(STATUS)),
    part(DEAD_LETTERS, LETTER),
    part(LATE_EVENTS, LATE),
    counts(accepted=1),
)


def sink_of(installed: Installed, check: Callable[[], int]) -> BatchSink:
    query_id = str(installed.checkpoint.query_id())
    return BatchSink(
        stream=STREAM,
        run_id="run-1",
        outputs=[
            (table, installed.uri(table), table in (DEAD_LETTERS, LATE_EVENTS))
            for table in (ALERTS, STATUS, DEAD_LETTERS, LATE_EVENTS)
        ],
        generation=query_id,
        ledger=Ledger(installed.config.tables["batch_counts"], STREAM, query_id),
        check_lease=check,
        note_timers=lambda timers: None,
        note_times=lambda times: None,
        checkpoint_uri=installed.generation.uri,
    )


class Standstill:
    """The lease from a writer's point of view, and what happens elsewhere while the writer pauses.

    Args:
        at: Before which of its commits it does.
        meanwhile: What happens.
    """

    def __init__(self, at: int, meanwhile: Callable[[], None]) -> None:
        self._left = at
        self._meanwhile = meanwhile
        self.epoch = 1

    def check(self) -> int:
        """A check of the lease, after which the writer pauses; the next check would find the loss."""
        if self.epoch != 1:
            raise LeaseLostError("the lease is another's")
        self._left -= 1
        if self._left < 0:
            self._meanwhile()
            self.epoch = 2
        return 1


def restored(installed: Installed) -> None:
    installed.restore(check=lambda: 2)


def rolled_back(installed: Installed) -> None:
    """Restore a version that another driver has already run."""
    take_over_all(installed.config, lambda: 2)
    installed.run(3, epoch=2)
    installed.restore(check=lambda: 3)


def repartitioned(installed: Installed) -> None:
    """The next generation continues with the same query id, as after a repartition."""
    take_over_all(installed.config, lambda: 2)
    following = installed.generation.following()
    installed.begin(following.uri, str(installed.checkpoint.query_id()))
    generations.make_current(following, "op-1", NOW)


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    made = Installed(tmp_path)
    take_over_all(made.config, lambda: 1)
    made.run(0)
    made.run(1)
    made.savepoint()
    made.run(2)
    return made


@pytest.mark.parametrize("operation", [restored, rolled_back, repartitioned])
@pytest.mark.parametrize("moment", range(5))
def test_no_row_of_a_writer_that_stood_still_meanwhile(
    installed: Installed, operation: Callable[[Installed], None], moment: int
) -> None:
    found = {}

    def meanwhile() -> None:
        operation(installed)
        found.update(installed.rows())

    # The first check is at the start of the batch; each further one is followed by a commit.
    writer = Standstill(moment + 1, meanwhile)
    with pytest.raises(LeaseLostError):
        sink_of(installed, writer.check)(FULL, 3)

    assert found
    assert installed.rows() == found


def test_a_writer_that_is_stopped_right_before_the_commit_is_refused(tmp_path: Path) -> None:
    """Paused by SIGSTOP, while another host acquires the lease after it has expired."""
    installed = Installed(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.support.spark.fence_child", str(tmp_path)], stderr=subprocess.PIPE
    )
    try:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "it stops at its commit"
        lease = lease_of(installed, "second")
        epoch = lease.acquire(newest_epoch(STREAM, installed.config.tables.values())).epoch
        take_over_all(installed.config, lambda: epoch)
        found = installed.rows()
        os.kill(child.pid, signal.SIGCONT)
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
    assert b"LeaseLostError" in said
    assert epoch == 2
    assert installed.rows() == found
    assert all(not rows for rows in found.values())


def lease_of(installed: Installed, run_id: str) -> Lease:
    from stateward.contract.process_identity import ProcessIdentity

    return Lease(
        installed.config.lease.uri,
        stream=STREAM,
        run_id=run_id,
        holder=ProcessIdentity(ELSEWHERE, 7, 1.0),
        ttl_ms=1,
    )


def test_other_streams_and_maintenance_go_on_beside_it(installed: Installed) -> None:
    uri = installed.uri(DEAD_LETTERS)
    stale = DeltaTable(uri)
    take_over(uri, "other", lambda: 9)
    stale.optimize.compact()
    take_over(uri, STREAM, lambda: 1)

    version = DeltaTable(uri).version()
    take_over(uri, STREAM, lambda: 1)
    assert DeltaTable(uri).version() == version, "once"
    sink_of(installed, lambda: 1)(FULL, 3)
    assert len(installed.rows()["dead_letters"]) == 4


def test_a_restored_table_still_knows_the_epoch(installed: Installed) -> None:
    installed.restore(check=lambda: 7)

    for uri in installed.config.tables.values():
        assert newest_epoch(STREAM, [uri]) == 7
        with pytest.raises(
            LeaseLostError, match="expected no holder of the lease after epoch 6, found epoch 7"
        ):
            take_over(uri, STREAM, lambda: 6)


def test_a_lease_that_was_removed_goes_on_from_what_the_tables_know(installed: Installed) -> None:
    take_over_all(installed.config, lambda: 7)
    newest = newest_epoch(STREAM, installed.config.tables.values())

    assert lease_of(installed, "third").acquire(newest).epoch == 8
