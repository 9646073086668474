"""The history of a lease's holders: written by drivers, read by the control plane."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from stateward.contract.lease import Holding, history_uri, holdings, read_holdings, read_lease
from stateward.contract.process_identity import ProcessIdentity
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.runtime.lease.lease import Lease

START = datetime(2026, 1, 1, tzinfo=UTC)
STREAM = "user_sessions"


class Driver:
    """A driver on another host, whose processes are not visible here."""

    def __init__(self, layout: Layout, run_id: str, pid: int) -> None:
        self.now = START
        self.lease = Lease(
            layout.lease_uri(STREAM),
            stream=STREAM,
            run_id=run_id,
            holder=ProcessIdentity("other/boot/pid:[1]", pid, 1.0),
            ttl_ms=20_000,
            clock=lambda: self.now,
        )


def layout_in(folder: Path) -> Layout:
    return Layout.of(Settings(home=folder, data=f"file://{folder}/data"))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_each_holder_is_there_with_its_end(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    assert read_holdings(layout.lease_uri(STREAM)) == []
    first, second, third = (Driver(layout, f"r{number}", 10 + number) for number in (1, 2, 3))
    first.lease.acquire()
    first.now = at(9)
    first.lease.renew()
    first.now = at(10)
    first.lease.release()
    second.now = at(30)
    second.lease.acquire()
    third.now = at(90)
    third.lease.acquire()

    host = "other/boot/pid:[1]"
    assert read_holdings(layout.lease_uri(STREAM)) == [
        Holding(1, "r1", host, 11, at(0), at(10), "released"),
        Holding(2, "r2", host, 12, at(30), at(90), "superseded"),
        Holding(3, "r3", host, 13, at(90)),
    ]


def test_a_lease_of_a_later_release_is_read(tmp_path: Path) -> None:
    uri = layout_in(tmp_path).lease_uri(STREAM)
    assert read_lease(uri) is None
    driver = Driver(layout_in(tmp_path), "r1", 11)
    taken = driver.lease.acquire()
    assert read_lease(uri) == taken
    row = {**taken.row(), "holder": taken.row()["holder"].replace("{", '{"zone": "a", '), "priority": 3}
    write_deltalake(uri, pa.Table.from_pylist([row]), mode="overwrite", schema_mode="overwrite")
    assert read_lease(uri) == taken
    driver.lease.check()


def test_a_history_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    folder = Path(history_uri(layout.lease_uri(STREAM)).removeprefix("file://"))
    folder.parent.mkdir(parents=True)
    folder.write_text("not a folder")
    driver = Driver(layout, "r1", 11)
    assert driver.lease.acquire().epoch == 1
    driver.lease.release()
    folder.unlink()
    assert driver.lease.acquire().epoch == 2
    assert [one.epoch for one in read_holdings(layout.lease_uri(STREAM))] == [2]
    shutil.rmtree(folder)
    driver.lease.release()


def test_rows_in_any_order_are_the_same_history() -> None:
    def row(event: str, epoch: int, seconds: float) -> dict[str, object]:
        holder = '{"host": "h", "pid": 1, "pid_started": 1.0}'
        return {"at": at(seconds), "event": event, "epoch": epoch, "run_id": "r", "holder": holder}

    rows = [row("acquired", 1, 0), row("released", 1, 5), row("acquired", 2, 7)]
    assert holdings(reversed(rows)) == holdings(rows)
    assert [one.end for one in holdings(rows)] == ["released", "open"]
    assert holdings([]) == []
