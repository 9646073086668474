"""Peers in the programs that measure one contestant: how one is named, started again, and shown."""

from __future__ import annotations

import os
from argparse import ArgumentError, ArgumentParser
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.charts.peers import beside_peers
from benchmarks.harness.contestants import Peer
from benchmarks.harness.measure import task_of
from benchmarks.harness.one_run import FLINK_PEERS, about, add_peer, contestant_of
from benchmarks.harness.readers import FlinkReader
from benchmarks.harness.workload import Workload
from benchmarks.peers.task import Task
from benchmarks.recovery import _kill_peer
from tests.support.full import ci_full

# It is about what the software is tested with.
pytestmark = ci_full


class Started:
    """A peer that keeps the tasks it was started with."""

    name = "flink_sql"

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def start(self, task: Task) -> None:
        self.tasks.append(task)


def reader(folder: Path) -> tuple[FlinkReader, Started]:
    contestant = Started()
    task = task_of(Workload(), 0, folder, "localhost:1", "rocksdb")
    return FlinkReader(cast(Peer, contestant), task), contestant


def test_a_peer_goes_on_from_its_newest_complete_checkpoint(tmp_path: Path) -> None:
    one, contestant = reader(tmp_path)
    one.start()
    for seconds, name in enumerate(("job-1/chk-9", "job-2/chk-3", "job-2/chk-4"), start=1):
        folder = tmp_path / "checkpoints" / name
        folder.mkdir(parents=True)
        if name != "job-2/chk-4":
            (folder / "_metadata").touch()
            os.utime(folder / "_metadata", (seconds, seconds))
    one.start()
    folders = [task.restore_uri for task in contestant.tasks]
    assert folders == ["", f"file://{tmp_path}/checkpoints/job-2/chk-3"]
    assert {task.group for task in contestant.tasks} == {one.task.group}


def test_each_run_has_a_group_of_its_own(tmp_path: Path) -> None:
    assert reader(tmp_path)[0].task.group != reader(tmp_path)[0].task.group


def test_a_peer_is_named_with_its_variant() -> None:
    parser = ArgumentParser(exit_on_error=False)
    add_peer(parser)
    entry = contestant_of(parser.parse_args(["--peer", "flink_sql=rocksdb"]))
    assert (entry.contestant, entry.variant) == (FLINK_PEERS["flink_sql"], "rocksdb")
    assert about(entry)["peer"] == "flink_sql=rocksdb"
    with pytest.raises(ArgumentError, match=r"'quix' is none of flink_sql, pyflink"):
        parser.parse_args(["--peer", "quix"])


def test_a_peers_time_ends_with_a_commit_after_its_death(tmp_path: Path) -> None:
    counts = iter((50, 70, 70, 70, 80))
    calls: list[str] = []

    class Reading:
        task = reader(tmp_path)[0].task

        def delivered(self) -> int:
            return next(counts)

        def kill(self) -> None:
            calls.append("kill")

        def start(self) -> None:
            calls.append("start")

    class Measured:
        workload = Workload(events=100)
        reader = Reading()

    assert set(_kill_peer(cast(Any, Measured()))) == {
        "checkpoint_bytes",
        "next commit, from its checkpoint, s",
    }
    assert calls == ["kill", "start"]
    assert next(counts, None) is None, "70 were committed before it was started again"


def sustained(events_per_s: int, **more: Any) -> dict[str, Any]:
    return {
        "correct": True,
        "before": False,
        "commit": "b",
        "stream": "stateward",
        "workload": Workload().as_json(),
        "events_per_s": events_per_s,
        "longest_pause_s": 2.0,
        "cpu_us": {"broker": 1.0, "driver's JVM": 5.0, "Python workers": 10.0},
        "rss_mib": {"broker": 400, "driver's JVM": 800, "Python workers": 600},
        **more,
    }


def test_a_drivers_figures_stand_beside_those_of_a_peer() -> None:
    results = {
        "sustained": [
            sustained(1, commit="a"),
            sustained(90_000),
            sustained(100_000),
            sustained(1, before=True),
            sustained(1, correct=False),
            sustained(70_000, peer="flink_sql=rocksdb", stream="flink_sql", variant="rocksdb"),
            sustained(1, workload=Workload(keys=5).as_json()),
        ],
        "recovery": [
            {"next commit, from its checkpoint, s": 12.34, "checkpoint_bytes": 5e6, "peer": "pyflink"}
            | {"correct": True, "workload": Workload().as_json()}
        ],
    }
    lines = beside_peers(results).splitlines()
    assert "| `stateward` | 95,000 | 2.0 | 15.0 | 1,400 | 2 |" in lines
    assert "| `flink_sql=rocksdb` | 70,000 | 2.0 | 15.0 | 1,400 | 1 |" in lines
    assert "| `pyflink` |  | 12.3 | 5 | 1 |" in lines
    assert sum(line.startswith("`") for line in lines) == 2, "other workloads have no peer"


def test_without_a_peer_there_is_no_section() -> None:
    assert beside_peers({"sustained": [sustained(90_000)]}) == ""
