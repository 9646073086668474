"""Hosts that die and networks that are cut: no row is lost or doubled, and there is one writer at a time."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES
from stateward.contract.lease import read_holdings
from stateward.contract.storage import list_names, read_text
from stateward.runtime.delta.commit_retry import is_epoch
from tests.cluster.conftest import Cluster, Installed
from tests.support.cluster import daemons
from tests.support.cluster.hosts import Host
from tests.support.cluster.installation import ClusterStream
from tests.support.cluster.s3 import UnreliableS3
from tests.support.full import only_full
from tests.support.streams.traced import Traced
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.cluster, only_full]

LOG = logging.getLogger(__name__)
STREAM = "user_sessions"
EXECUTOR = "[C]oarseGrainedExecutorBackend"
HALF_AN_HOUR_S = 1800.0

# What fails in each sixth of two minutes: the share that is refused, the share that is late, and how late.
FAILING = (
    {"refused": 0.3, "late": 0.2, "most_s": 4.0},
    {"refused": 0.5, "late": 0.3, "most_s": 4.0},
    {"refused": 1.0},
    {"refused": 0.5, "late": 0.1, "most_s": 8.0},
    {"refused": 0.0, "late": 0.5, "most_s": 8.0},
    {"refused": 0.7},
)
SIXTH_S = 20.0
CLIENTS_OF_S3 = {"Hadoop", "object_store", "aiobotocore"}


@pytest.fixture(scope="module")
def edges(cluster: Cluster) -> list[Host]:
    """Three hosts for Airflow and the drivers that it starts beside itself."""
    names = ("edge1", "edge2", "edge3")
    cluster.network.add(*names)
    return [cluster.network.hosts[name] for name in names]


def test_the_host_of_a_driver_dies_and_the_next_one_is_cut_off_from_the_storage(
    cluster: Cluster, installed: Installed, edges: list[Host]
) -> None:
    # Each Airflow has an empty database of its own: that of the dead host is gone with it.
    installations = [installed("one", host=host) for host in edges]
    first, second, third = (one.add(STREAM) for one in installations)
    course = course_of(first)
    cluster.broker.create_topic(first.topic, first.partitions)
    parts = course.parts(6)
    for airflow in [one.airflow for one in installations]:
        airflow.wait(airflow.migrate())

    course.send(parts[0])
    first.run()
    first.delivered(course.sent)
    course.send(parts[1])
    edges[0].kill()

    course.send(parts[2])
    second.run()
    second.delivered(course.sent)
    # The driver goes on without its Airflow, which would start another one.
    second.installation.airflow.kill()
    course.send(parts[3])
    storage = cluster.network.hosts["storage"].address
    edges[1].run("ip", "route", "add", "blackhole", storage)
    cut_off = second.status()

    third.run()
    course.send(parts[4])
    third.delivered(course.sent)
    taken_over = newest_versions(third)
    edges[1].run("ip", "route", "del", "blackhole", storage)
    wait_until(
        lambda: not drivers_on(edges[1]), PATIENCE_S, lambda: f"the old driver ends: {second.driver_log()}"
    )
    assert third.status()["run_id"] != cut_off["run_id"]

    course.send(parts[5])
    course.finish(third)
    third.stop()
    assert course.wrong() == {}
    assert course.row_counts()["sessions"] > 100
    assert written_since(third, taken_over) == {third.status()["epoch"]}
    assert one_writer_at_a_time(third) == 3


def test_a_host_with_an_executor_dies(cluster: Cluster, installed: Installed) -> None:
    installation = installed("worker")
    stream = installation.add(STREAM)
    course = course_of(stream)
    cluster.broker.create_topic(stream.topic, stream.partitions)
    parts = course.parts(2)
    installation.airflow.wait(installation.airflow.migrate())
    course.send(parts[0])
    stream.run()
    stream.delivered(course.sent)
    course.send(parts[1])
    [died] = [host for host in cluster.workers if has_executor(host)]
    replace_worker(cluster, died)

    course.finish(stream)
    stream.stop()
    assert course.wrong() == {}
    assert one_writer_at_a_time(stream) >= 1


def test_the_object_store_answers_503_and_slowly_for_two_minutes(
    cluster: Cluster, installed: Installed, unreliable_s3: UnreliableS3
) -> None:
    installation = installed("unreliable", "unreliable_s3")
    stream = installation.add(STREAM)
    course = course_of(stream)
    cluster.broker.create_topic(stream.topic, stream.partitions)
    first, *parts = course.parts(1 + len(FAILING))
    installation.airflow.wait(installation.airflow.migrate())
    course.send(first)
    stream.run()
    stream.delivered(course.sent)

    said: set[str] = set()
    for part, faults in zip(parts, FAILING, strict=True):
        unreliable_s3.fail(**faults)
        course.send(part)
        said |= said_within(stream, SIXTH_S)
    unreliable_s3.fail()
    LOG.info("answered %s, said %s", unreliable_s3.answered(), said)
    stream.delivered(course.sent)
    course.finish(stream)
    stream.stop()
    LOG.info("%s drivers in turn", one_writer_at_a_time(stream))
    assert course.wrong() == {}
    assert course.row_counts()["sessions"] > 100
    refused = {client for client, found in unreliable_s3.answered().items() if found.get("refused")}
    assert refused == CLIENTS_OF_S3
    assert any("storage" in message for message in said), said


def said_within(stream: ClusterStream, seconds: float) -> set[str]:
    """The messages of its status in the next seconds; its supervision has to go on."""
    deadline, found = time.monotonic() + seconds, set[str]()
    while time.monotonic() < deadline:
        found.add(stream.wait("it has a status", bool)["message"])
        time.sleep(0.5)
    return found


def course_of(stream: ClusterStream) -> Traced:
    """An hour of event time, so that sessions end while it lasts."""
    return Traced(stream, Plan(PROFILES["daily"], 7, rate=1.5, minutes=60, topics=("user_events",)))


def drivers_on(host: Host) -> list[str]:
    return host.run("sh", "-c", "pgrep -f '[s]tateward/driver.py' || true").split()


def has_executor(host: Host) -> bool:
    return bool(host.run("sh", "-c", f"pgrep -f '{EXECUTOR}' || true"))


def one_writer_at_a_time(stream: ClusterStream) -> int:
    """How many drivers have held the lease, after a check that each took it when the one before had ended."""
    held = read_holdings(stream.installation.layout.lease_uri(stream.name))
    assert [one.epoch for one in held] == list(range(1, len(held) + 1))
    for before, after in itertools.pairwise(held):
        assert before.until is not None
        assert before.until <= after.since, held
    return len(held)


def newest_versions(stream: ClusterStream) -> dict[str, int]:
    """The newest commit of each table."""
    return {table: max(commits(stream, table)) for table in stream.stream.tables}


def commits(stream: ClusterStream, table: str) -> Iterator[int]:
    names = list_names(f"{stream.installation.layout.table_uri(table)}/_delta_log")
    return (int(Path(name).stem) for name in names if name.endswith(".json") and name[0].isdigit())


def written_since(stream: ClusterStream, versions: dict[str, int]) -> set[int]:
    """The epochs in the commits after some versions."""
    found = set()
    for table, version in versions.items():
        for one in commits(stream, table):
            if one > version:
                log = f"{stream.installation.layout.table_uri(table)}/_delta_log/{one:020}.json"
                actions = map(json.loads, (read_text(log) or "").splitlines())
                found |= {
                    action["txn"]["version"]
                    for action in actions
                    if is_epoch(action.get("txn", {}).get("appId", ""))
                }
    return found


@pytest.mark.timeout(3600)
def test_half_an_hour_of_faults_at_random(cluster: Cluster, installed: Installed) -> None:
    installation, chance = installed("random"), random.Random(11)
    stream = installation.add(STREAM, restart={"backoff": "1s", "max_backoff": "5s", "max_attempts": 100})
    course = course_of(stream)
    cluster.broker.create_topic(stream.topic, stream.partitions)
    parts = course.parts(40)
    installation.airflow.wait(installation.airflow.migrate())
    stream.run()
    deadline = time.monotonic() + HALF_AN_HOUR_S
    seen: Counter[str] = Counter()
    for part in parts:
        course.send(part)
        if time.monotonic() < deadline:
            fault = chance.choice(FAULTS)
            LOG.info("%s after %s records", fault.__name__, stream.status().get("delivered"))
            fault(cluster, stream, chance)
            seen[fault.__name__] += 1
        stream.delivered(course.sent)
    course.finish(stream)
    stream.stop()
    LOG.info("%s, and %s drivers in turn", dict(seen), one_writer_at_a_time(stream))
    assert course.wrong() == {}
    assert set(seen) == {fault.__name__ for fault in FAULTS}


def executors_die(cluster: Cluster, _stream: ClusterStream, _chance: random.Random) -> None:
    for host in cluster.workers:
        host.run("sh", "-c", f"pkill -KILL -f '{EXECUTOR}' || true")


def the_driver_dies(_cluster: Cluster, stream: ClusterStream, _chance: random.Random) -> None:
    stream.kill_driver()


def the_driver_is_frozen(_cluster: Cluster, stream: ClusterStream, chance: random.Random) -> None:
    found = [psutil.Process(stream.status()[name]) for name in ("pid", "python_pid")]
    for process in found:
        process.suspend()
    time.sleep(chance.uniform(5, 40))
    for process in found:
        # The control plane may have ended it.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


def the_storage_is_away(cluster: Cluster, _stream: ClusterStream, chance: random.Random) -> None:
    cluster.network.cut("storage")
    time.sleep(chance.uniform(2, 45))
    cluster.network.mend("storage")


def a_host_dies(cluster: Cluster, _stream: ClusterStream, chance: random.Random) -> None:
    replace_worker(cluster, chance.choice(cluster.workers))


_NAMES = itertools.count(3)


def replace_worker(cluster: Cluster, died: Host) -> None:
    """A worker's host dies, and another one comes."""
    name = f"worker{next(_NAMES)}"
    cluster.network.drop(died.name)
    cluster.network.add(name)
    daemons.start_worker(cluster.network.hosts[name], cluster.master)


FAULTS = (executors_die, the_driver_dies, the_driver_is_frozen, the_storage_is_away, a_host_dies)
