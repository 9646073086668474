"""State operations on a cluster: the stream is drained, changed and started again by Airflow's tasks."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES
from proof.traffic.records import Slice
from stateward.contract.storage import list_names, read_bytes, sizes_below, write_bytes
from stateward.control.care.record import read_record
from stateward.control.reconcile.observe import read_control
from stateward.replay.pacing import Pacer
from stateward.replay.send import Sender
from tests.cluster.conftest import Cluster, Installed
from tests.support.cluster.installation import ClusterInstallation, ClusterStream
from tests.support.full import only_full
from tests.support.streams.traced import Traced
from tests.support.traces.search import Trace, traces_of
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.cluster, only_full]

LONGEST_S = 900.0
# A savepoint and a repartition are each watched for three minutes, because nothing is sent meanwhile.
LONGEST_CARE_S = 1800.0
# A watch ends with the first batch. On a busy machine the first one after a restore takes a minute.
LONGEST_WATCH_S = 300

STORAGES = pytest.mark.parametrize("storage", ["hdfs", "s3"])
STREAM = "user_sessions"
PERSON = "person-ann-42-of-the-trace-test"

# A look at a state of any size proposes four partitions, and the first one is acted upon.
CARED_FOR = {"policy": "auto", "looks": 1, "limits": {"partition_bytes": 1000, "max_partitions": 4}}


@STORAGES
def test_a_stream_that_was_repartitioned_and_restored_is_exact(
    cluster: Cluster, installed: Installed, storage: str
) -> None:
    stream, course, parts = _begun(cluster, installed("state", storage), 3)
    _operate(stream, "repartition", repartition_partitions=5)
    course.send(parts[1])
    stream.delivered(course.sent)
    _operate(stream, "savepoint", savepoint_reason="before the last part")
    savepoint = max(list_names(stream.installation.layout.savepoints_uri(stream.name)))
    course.send(parts[2])
    stream.delivered(course.sent)
    _operate(stream, "restore", restore_savepoint=savepoint)
    course.finish(stream)
    stream.stop()
    assert course.wrong() == {}


@STORAGES
def test_a_stream_that_was_exported_migrated_and_upgraded_is_exact(
    cluster: Cluster, installed: Installed, storage: str
) -> None:
    stream, course, parts = _begun(cluster, installed("upgraded", storage), 4)
    installation, airflow = stream.installation, stream.installation.airflow
    looking = json.dumps({"verb": "export", "stream": stream.name})
    run = airflow.start("state_inspection", looking)
    assert airflow.wait(run)["operate"] == "success", airflow.said(run)[-4000:]
    assert stream.rows("state_exports")
    _operate(stream, "migrate", migrate_buckets=16)

    logic, release = installation.folder / "spark_jobs" / STREAM / "logic.py", _release(stream)
    sound, opening = logic.read_text(), "        session = merge(state, event) if state"
    assert opening in sound
    logic.write_text(sound.replace(opening, f"        raise ArithmeticError(key)\n{opening}"))
    run = stream.begin("upgrade")
    stream.wait("it is drained", lambda status: status["state"] == "stopped")
    # Only an event reaches the fault.
    course.send(parts[1])
    states = airflow.wait(run, LONGEST_S)
    assert (states["watch"], states["go_back.watch"]) == ("failed", "success"), airflow.said(run)[-6000:]
    assert _release(stream) == release
    stream.delivered(course.sent)

    logic.write_text(f"{sound}\n# Another release.\n")
    run = stream.begin("upgrade")
    course.send(parts[2])
    states = airflow.wait(run, LONGEST_S)
    assert (states["outcome"], states["watch"]) == ("success", "success"), airflow.said(run)[-6000:]
    assert _release(stream) != release
    course.send(parts[3])
    course.finish(stream)
    stream.stop()
    assert course.wrong() == {}


@STORAGES
def test_a_person_is_forgotten_and_a_state_is_cared_for(
    cluster: Cluster, installed: Installed, storage: str
) -> None:
    stream, course, parts = _begun(cluster, installed("cared", storage), 12, state_care=CARED_FOR)
    installation, airflow = stream.installation, stream.installation.airflow
    _visit(stream, course, parts[0][-1])
    for part in parts[1:10]:
        course.send(part)
    # The next visit is another session, so the first one is a row and the other one a state.
    _visit(stream, course, parts[9][-1])
    stream.delivered(course.sent)
    wait_until(lambda: PERSON in _people(stream), PATIENCE_S, "the first visit is a row")
    assert {one.place.partition("/")[0] for one in _traces(installation)} >= {"checkpoints", "tables"}
    _operate(stream, "forget", forget_key=PERSON)
    assert _traces(installation) == []

    airflow.carry_out()
    run = airflow.start(f"state_{stream.name}")
    states = airflow.wait(run, LONGEST_CARE_S)
    done = ("advise", "dry_run", "savepoint", "verify", "prune", "act", "report")
    assert {task: states[task] for task in done} == dict.fromkeys(done, "success"), airflow.said(run)[-6000:]
    assert states["approve"] == "skipped"
    [change] = read_record(installation.layout, stream.name).changes
    before = stream.document()["state_partitions"]
    assert (change.kind, change.before, change.after) == ("repartition", before, 4)

    for part in parts[10:]:
        course.send(part)
    course.finish(stream)
    stream.stop()
    # The records of the person were counted, and are no part of the truth.
    assert course.wrong().keys() == {"batch_counts"}
    assert _traces(installation) == []


@STORAGES
def test_an_installation_moves_from_a_disk(cluster: Cluster, installed: Installed, storage: str) -> None:
    before, after = installed("moved", "disk"), installed("moved", storage)
    stream, moved = before.add("user_sessions"), after.add("user_sessions")
    for airflow in (before.airflow, after.airflow):
        airflow.wait(airflow.migrate())
    course = Traced(moved, Plan(PROFILES["daily"], 9, rate=1, minutes=60, topics=("user_events",)))
    cluster.broker.create_topic(stream.topic, stream.partitions)
    first, second = course.parts(2)
    stream.run()
    before.airflow.store_dags()
    course.send(first)
    stream.delivered(course.sent)
    stream.stop()
    _outcome(stream, "savepoint", savepoint_reason="a move")

    disk = Path(before.data.removeprefix("file://"))
    for file in disk.rglob("*"):
        if file.is_file():
            write_bytes(f"{after.data}/{file.relative_to(disk)}", file.read_bytes())
    shutil.rmtree(disk)
    after.airflow.store_dags()
    [savepoint] = list_names(after.layout.savepoints_uri(moved.name))
    _outcome(moved, "restore", restore_savepoint=savepoint)
    moved.run()
    course.send(second)
    course.finish(moved)
    moved.stop()
    assert course.wrong() == {}
    assert course.row_counts()["sessions"] > 100


def _begun(
    cluster: Cluster, installation: ClusterInstallation, number: int, **fields: Any
) -> tuple[ClusterStream, Traced, list[list[Slice]]]:
    """A stream that runs and has read the first of some parts of its traffic."""
    stream = installation.add(STREAM, **fields)
    installation.airflow.wait(installation.airflow.migrate())
    course = Traced(stream, Plan(PROFILES["daily"], 9, rate=1, minutes=60, topics=("user_events",)))
    cluster.broker.create_topic(stream.topic, stream.partitions)
    parts = course.parts(number)
    stream.run()
    installation.airflow.store_dags()
    course.send(parts[0])
    stream.delivered(course.sent)
    return stream, course, parts


def _release(stream: ClusterStream) -> str | None:
    control = read_control(stream.installation.layout, stream.name)
    return None if control is None else control.release


def _visit(stream: ClusterStream, course: Traced, at: Slice) -> None:
    """Send a record of the person, with the newest time of a slice: a later one may be late."""
    times = [json.loads(record.value or b"")["event_time"] for record in at.records if record.mark == "event"]
    event = {"event_id": f"{PERSON}-{course.sent}", "user_id": PERSON, "event_type": "view"}
    event |= {"event_time": max(times)}
    record = (PERSON.encode(), json.dumps(event).encode())
    Sender(stream.broker.bootstrap, stream.topic).send_records(
        [record], Pacer(None, time.monotonic, time.sleep)
    )
    course.sent += 1


def _people(stream: ClusterStream) -> set[str]:
    return {row["user_id"] for row in stream.rows("sessions")}


def _traces(installation: ClusterInstallation) -> list[Trace]:
    """Where the person is found in the files of the installation's storage."""
    found: list[Trace] = []
    for name in sizes_below(installation.data):
        found += traces_of(name, read_bytes(f"{installation.data}/{name}") or b"", PERSON)
    return found


def _operate(stream: ClusterStream, verb: str, **fields: Any) -> None:
    assert _outcome(stream, verb, **fields)["watch"] == "success"


def _outcome(stream: ClusterStream, verb: str, **fields: Any) -> dict[str, str]:
    run, states = stream.operate(verb, watch_s=LONGEST_WATCH_S, **fields)
    assert states["outcome"] == "success", f"{states} {stream.installation.airflow.said(run)[-4000:]}"
    return states
