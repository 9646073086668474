"""A driver without executors: what it says, for how long, and what the control plane makes of it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.contract.process_identity import driver_process
from stateward.contract.stream_status import ClusterRoom, status_from
from stateward.runtime.driver.executors import (
    ClusterAwayError,
    ExecutorWatch,
    master_state,
    mebibytes,
    room_of,
)
from stateward.runtime.telemetry.status import StatusFile
from tests.support.http_server import answering

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FULL = ClusterRoom(1, 2, 2048, 0, 1024, fits=False, held={"occupier": 2})


class Cluster:
    """A clock, the number of executors, and what the cluster answers."""

    def __init__(self, executors: int = 0, room: ClusterRoom | None = FULL) -> None:
        self.now = NOW
        self.executors = executors
        self.room = room
        self.asked = 0

    def ask(self) -> ClusterRoom:
        self.asked += 1
        if self.room is None:
            raise ClusterAwayError("http://m:8080/json/ does not answer: refused")
        return self.room

    def watch(self) -> ExecutorWatch:
        return ExecutorWatch(
            lambda: self.executors, self.ask, cores=1, memory_mb=1024, clock=lambda: self.now
        )

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def changes(watch: ExecutorWatch) -> dict[str, Any]:
    return watch.fields if watch.look() else {}


def recorded(folder: Path, cluster: Cluster, written: list[dict[str, Any]]) -> StatusFile:
    """A status file whose documents are kept."""

    class Recorded(StatusFile):
        def update(self, **fields: Any) -> None:
            super().update(**fields)
            written.append(self.document)

    uri, process = f"file://{folder}/s.json", driver_process()
    return Recorded(uri, stream="s", run_id="r1", process=process, python_pid=1, clock=lambda: cluster.now)


def test_an_executor_that_takes_some_seconds_is_not_waited_for() -> None:
    cluster = Cluster()
    watch = cluster.watch()
    for _ in range(3):
        assert changes(watch) == {}
        cluster.later(3)
    cluster.executors = 1
    assert (changes(watch), watch.message, cluster.asked) == ({}, "", 0)


def test_a_driver_without_one_says_what_the_cluster_has_free_and_since_when() -> None:
    cluster = Cluster()
    watch = cluster.watch()
    changes(watch)
    cluster.later(10)
    found = changes(watch)
    assert found["cause"] == {"kind": "executors", "lasting": False}
    assert found["awaits"]["since"] == "2026-01-01T00:00:00Z"
    assert found["awaits"]["room"]["free_cores"] == 0
    assert watch.message == (
        "no executor, which takes 1 core and 1024 MiB: the cluster has 0 of 2 cores and 1024 of 2048 MiB free"
        " on 1 worker; cores are held by occupier (2)"
    )
    assert changes(watch) == {}, "nothing has changed"
    cluster.later(5)
    cluster.room = ClusterRoom(1, 2, 2048, 2, 2048, fits=True)
    assert changes(watch)["awaits"]["room"]["fits"]
    assert "is about to start, or ends at once" in watch.message
    cluster.executors = 1
    assert changes(watch) == {"awaits": None, "cause": None}
    assert (watch.message, changes(watch)) == ("", {})


def test_a_cluster_that_does_not_answer_is_not_asked_at_each_look() -> None:
    cluster = Cluster(room=None)
    watch = cluster.watch()
    changes(watch)
    cluster.later(10)
    assert changes(watch)["awaits"]["unknown"].startswith("http://m:8080/json/")
    assert "what the cluster has free is not known (http://m:8080" in watch.message
    for _ in range(4):
        cluster.later(1)
        assert changes(watch) == {}
    assert cluster.asked == 1


@given(st.lists(st.tuples(st.floats(0, 8), st.booleans()), max_size=40))
def test_it_waits_if_and_only_if_ten_seconds_have_passed_without_one(looks: list[tuple[float, bool]]) -> None:
    cluster = Cluster()
    watch = cluster.watch()
    without: datetime | None = None
    for seconds, has_one in looks:
        cluster.later(seconds)
        cluster.executors = int(has_one)
        changes(watch)
        without = None if has_one else without or cluster.now
        waits = without is not None and cluster.now - without >= timedelta(seconds=10)
        assert bool(watch.message) == waits


def test_the_start_goes_on_with_the_first_executor_and_its_deadline_begins_again(tmp_path: Path) -> None:
    cluster = Cluster()
    written: list[dict[str, Any]] = []
    status = recorded(tmp_path, cluster, written)
    status.enter("topics")

    def pause(_: float) -> None:
        cluster.later(4)
        cluster.executors = int(cluster.now >= NOW + timedelta(seconds=30))

    assert cluster.watch().come(status, lambda: False, pause)
    assert [one["state"] for one in written if one["awaits"]][:1] == ["waiting"]
    last, _ = status_from(written[-1])
    assert (last.state, last.awaits, last.cause, last.message, last.phase) == (
        "starting",
        None,
        None,
        "",
        "topics",
    )
    assert last.phase_at == cluster.now


def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    cluster = Cluster()
    status = recorded(tmp_path, cluster, [])
    answers = iter([False, False, True])
    assert not cluster.watch().come(status, lambda: next(answers), cluster.later)


def test_a_driver_of_a_local_master_waits_for_nothing() -> None:
    watch = ExecutorWatch.of_local(lambda: NOW)
    assert (changes(watch), watch.message) == ({}, "")


# What `/json/` of Spark 4.2 says, shortened.
STATE: dict[str, Any] = {
    "status": "ALIVE",
    "workers": [
        {"state": "ALIVE", "cores": 4, "coresused": 4, "coresfree": 0, "memory": 4096, "memoryfree": 2048},
        {"state": "ALIVE", "cores": 2, "coresused": 1, "coresfree": 1, "memory": 2048, "memoryfree": 512},
        {"state": "DEAD", "cores": 8, "coresused": 0, "coresfree": 8, "memory": 8192, "memoryfree": 8192},
    ],
    "activeapps": [
        {"id": "app-1", "name": "occupier", "cores": 3},
        {"id": "app-2", "name": "occupier", "cores": 2},
        {"id": "app-3", "name": "waits", "cores": 0},
        {"id": "app-own", "name": "stateward-s", "cores": 1},
    ],
}


@pytest.mark.parametrize(("cores", "memory_mb", "fits"), [(1, 512, True), (1, 513, False), (2, 512, False)])
def test_an_executor_fits_on_one_worker_or_not_at_all(cores: int, memory_mb: int, fits: bool) -> None:
    assert room_of(STATE, "app-own", cores=cores, memory_mb=memory_mb) == ClusterRoom(
        2, 6, 6144, 1, 2560, fits=fits, held={"occupier": 5}
    )


def test_a_cluster_without_workers_is_called_so() -> None:
    room = room_of({"workers": [], "activeapps": []}, "a", cores=1, memory_mb=1)
    assert str(room) == "the cluster has no worker"


@pytest.mark.parametrize("state", [{}, {"workers": [{}]}, {"workers": None}, []])
def test_another_document_is_no_answer(state: Any) -> None:
    with pytest.raises(ClusterAwayError, match="its answer"):
        room_of(state, "a", cores=1, memory_mb=1)


@pytest.mark.parametrize(
    ("text", "found"),
    [("512m", 512), ("2g", 2048), ("1G", 1024), ("1024", 1024), ("2048k", 2), ("1gb", 1024), ("3GiB", 3072)],
)
def test_the_memory_of_an_executor_is_read_as_spark_reads_it(text: str, found: int) -> None:
    assert mebibytes({"spark.executor.memory": text}) == found
    assert mebibytes({}) == 1024


def answers(document: object) -> type[BaseHTTPRequestHandler]:
    class Master(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/json/" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    return Master


def test_the_master_that_leads_is_asked_at_the_port_of_its_page() -> None:
    with ExitStack() as servers:
        ports = [
            servers.enter_context(answering(answers(one))).rpartition(":")[2]
            for one in ({"status": "STANDBY"}, STATE)
        ]
        conf = {"spark.master.ui.port": ports[1]}
        assert master_state("spark://127.0.0.1:7077", conf) == STATE
        with pytest.raises(ClusterAwayError, match="no master leads"):
            master_state("spark://127.0.0.1:7077", {"spark.master.ui.port": ports[0]})
    with pytest.raises(ClusterAwayError, match=r"http://127.0.0.1:\d+/json/ does not answer"):
        master_state("spark://127.0.0.1:7077", conf)
    with pytest.raises(ClusterAwayError, match="yarn is not asked"):
        master_state("yarn", {})
