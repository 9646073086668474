"""A batch that two drivers have begun and none has written is planned again, smaller; any other is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from msgspec import structs

from spark_jobs.user_sessions.declaration import JOB
from stateward.contract.process_identity import driver_process
from stateward.driver import CHECKS
from stateward.runtime.checkpoint.attempts import records_of_next
from stateward.runtime.checkpoint.batch_plan import Plan
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.delta.commit_retry import app_id
from stateward.runtime.delta.lookup_tables import TableVersion
from stateward.runtime.driver.driver import Driver
from stateward.runtime.driver.jvm_watchdog import ParentJvm
from stateward.runtime.lease.lease import Lease, utc_now
from stateward.runtime.telemetry.status import StatusFile
from stateward.state.operation.replan import take_back_plan
from tests.unit.state.compatibility.test_descriptor import config_of
from tests.unit.state.files.test_state_file_completeness import State

MOST = 1000
TOPICS = ("events",)


class Pending:
    """A checkpoint whose batch 2, of 900 records, is planned, and its tables."""

    def __init__(self, folder: Path) -> None:
        self.state = State(folder / "checkpoint")
        self.uri = f"file://{folder}/checkpoint"
        self.state.put("metadata", json.dumps({"id": "g1"}))
        self.state.put("sources/0/0", json.dumps({"events": {"0": 0}, "ticks": {"0": 0}}))
        self.state.commit(0, 1)
        for batch, end in enumerate((100, 200, 1100)):
            self.plan(batch, end)
            self.state.put(f"state/0/0/{batch + 1}.changelog")
            self.state.put(f"state/0/0/.{batch + 1}.changelog.crc")
        self.state.put("state/0/0/3.zip")
        self.tables = {name: f"file://{folder}/tables/{name}" for name in ("sessions", "batch_counts")}
        for name in self.tables:
            for batch in (0, 1):
                self.write(name, batch)

    def plan(self, batch: int, end: int, more: Mapping[str, Any] = MappingProxyType({})) -> None:
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
        ends = json.dumps({"events": {"0": end}, "ticks": {"0": 7}, **more})
        self.state.put(f"offsets/{batch}", f"v1\n{head}\n{ends}")
        self.state.put(f"offsets/.{batch}.crc")

    def write(self, table: str, batch: int, generation: str = "g1") -> None:
        done = Transaction(app_id(generation, table), batch)
        rows = pa.table({"n": [batch]})
        commit = CommitProperties(app_transactions=[done])
        write_deltalake(self.tables[table], rows, mode="append", commit_properties=commit)

    def begin(self) -> int:
        """What a driver does when it begins; returns how many records the batch may have that it plans."""
        take_back_plan(self.uri, self.tables, TOPICS, MOST)
        return records_of_next(self.uri, MOST)

    @property
    def planned(self) -> int:
        return Checkpoint(self.uri).last_planned()

    @property
    def files(self) -> set[str]:
        root = self.state.folder
        kept = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
        return {str(path) for path in kept if path.parts[0] != "stateward"}


@pytest.fixture
def pending(tmp_path: Path) -> Pending:
    return Pending(tmp_path)


def test_its_plan_and_its_states_are_taken_back_once_two_drivers_have_begun_it(pending: Pending) -> None:
    before = pending.files
    assert pending.begin() == MOST
    assert pending.files == before

    assert pending.begin() == 90
    assert before - pending.files == {
        "offsets/2",
        "offsets/.2.crc",
        "state/0/0/3.changelog",
        "state/0/0/.3.changelog.crc",
        "state/0/0/3.zip",
    }
    assert pending.planned == 1


def test_it_is_smaller_still_if_that_was_too_much(pending: Pending) -> None:
    pending.begin()
    pending.begin()
    assert pending.begin() == 90, "the driver ended before it had planned anything"
    pending.plan(2, 290)
    assert [pending.begin(), pending.begin()] == [90, 9]
    assert pending.planned == 1


def test_each_batch_after_it_may_be_twice_as_large(pending: Pending) -> None:
    pending.begin()
    pending.begin()
    allowed = []
    for batch in range(2, 8):
        allowed.append(records_of_next(pending.uri, MOST))
        pending.plan(batch, 200 + batch)
        pending.state.commit(batch)
    assert allowed == [90, 180, 360, 720, MOST, MOST]
    pending.plan(8, 1256)
    assert [pending.begin(), pending.planned] == [MOST, 8], "another batch, which was begun once"


@pytest.mark.parametrize("table", ["sessions", "batch_counts"])
def test_a_batch_of_which_a_table_has_anything_keeps_its_plan(pending: Pending, table: str) -> None:
    pending.write(table, 2)
    before = pending.files
    assert [pending.begin() for _ in range(4)] == [MOST] * 4
    assert pending.files == before


def test_what_another_generation_has_written_does_not_count(pending: Pending) -> None:
    pending.write("sessions", 7, generation="g2")
    assert [pending.begin(), pending.begin()] == [MOST, 90]


def test_the_first_batch_of_all_too(pending: Pending, tmp_path: Path) -> None:
    for path in ("offsets/1", "offsets/2", "commits/0", "commits/1"):
        (pending.state.folder / path).unlink()
    pending.tables = {"sessions": f"file://{tmp_path}/tables/missing"}
    assert [pending.begin(), pending.begin(), pending.planned] == [MOST, 10, -1]
    assert not (pending.state.folder / "state").exists(), "Spark refuses to plan a first batch beside it"


def test_the_first_batch_keeps_its_plan_if_a_table_has_it(pending: Pending, tmp_path: Path) -> None:
    for path in ("offsets/1", "offsets/2", "commits/0", "commits/1"):
        (pending.state.folder / path).unlink()
    pending.tables = {"alerts": f"file://{tmp_path}/tables/alerts"}
    pending.write("alerts", 0)
    assert [pending.begin(), pending.begin(), pending.planned] == [MOST, MOST, 0]


def test_one_record_cannot_be_planned_smaller(pending: Pending) -> None:
    pending.plan(2, 201)
    assert [pending.begin(), pending.begin(), pending.planned] == [MOST, MOST, 2]


def test_one_record_is_planned_again_if_the_version_of_a_lookup_may_be_gone(pending: Pending) -> None:
    lookups = {"merchants": TableVersion(4, "id")}
    pending.plan(2, 201, Plan({}, lookups=lookups).to_json())
    assert [pending.begin(), pending.begin(), pending.planned] == [MOST, 1, 1]


def test_a_table_that_cannot_be_read_keeps_the_plan_until_it_is_repaired(pending: Pending) -> None:
    log = Path(pending.tables["sessions"].removeprefix("file://"), "_delta_log")
    (torn := log / f"{2:020}.json").write_text('{"add": {"pa')
    assert [pending.begin(), pending.begin(), pending.planned] == [MOST, MOST, 2]
    torn.unlink()
    assert [pending.begin(), pending.planned] == [90, 1]


def test_a_driver_does_it(pending: Pending, tmp_path: Path) -> None:
    config = structs.replace(
        config_of("user_sessions", tmp_path),
        checkpoint_uri=pending.uri,
        tables=pending.tables,
        several_topics=TOPICS,
        max_records_per_batch=MOST,
    )
    lease = Lease(f"file://{tmp_path}/l", stream="s", run_id="r1", holder=driver_process(), ttl_ms=20_000)
    lease.acquire()
    status = StatusFile(
        f"file://{tmp_path}/status.json",
        stream="s",
        run_id="r1",
        process=driver_process(),
        python_pid=1,
        clock=utc_now,
    )
    for planned in (2, 1):
        no_session = partial(pytest.fail, "no session is needed")
        driver = Driver(JOB, config, lease, status, CHECKS, session=no_session, jvm=ParentJvm())
        driver._keeper.start()
        driver._take_back_plan()
        driver._keeper.stop()
        assert pending.planned == planned
