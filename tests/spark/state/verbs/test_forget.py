"""`forget`: no trace of a key in what a stream has written, and every other row as it was."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from stateward.contract.privacy.forgotten import Register
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import PendingOperationError
from stateward.state.errors import StateError
from stateward.state.forget.places import Places
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import (
    EVENT_WINDOWS,
    PAYMENT_AUTH_JOIN,
    SESSION_WINDOWS,
    USER_SESSIONS,
    Launch,
    Stream,
)
from tests.support.spark.running_query import Running, running
from tests.support.state.forgetting import Record, folder_of, forget, land, leave_traces
from tests.support.state.inspected import at, record, settled
from tests.support.state.operations import operate
from tests.support.streams.oracle import in_order
from tests.support.traces.search import traces_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PERSON = "person-ann-42"
OTHERS = ("bob", f"{PERSON}0")
EVERYBODY = (PERSON, *OTHERS)


def launched(folder: Path, broker: RunningBroker, stream: Stream) -> Launch:
    """A launch with a topic of its own, of one partition."""
    launch = Launch(folder, broker, f"forget-{uuid.uuid4().hex[:8]}", partitions=1, stream=stream)
    broker.create_topic(launch.topic, launch.partitions)
    return launch


def visits(minute: int, people: tuple[str, ...] = EVERYBODY) -> list[Record]:
    return [
        record("user_id", one, f"{one[-2:]}{minute}", minute, event_type="view", is_last=False)
        for one in people
    ]


BROKEN: list[Record] = [
    (b"k", b'{"user_id": "' + PERSON.encode() + b'", broken'),
    (b"k", b'{"user_id": "bob'),
]


def run(launch: Launch, spark: SparkSession, run_id: str, batches: list[tuple[list[Record], int]]) -> Running:
    """Batches of records, each with the minute of the watermark after it."""
    with running(launch, spark, run_id, checkpoint_uri=launch.checkpoint) as query:
        for records, minute in batches:
            launch.send(records, partition=0)
            land(launch, records)
            settled(query, at(minute))
        query.drain()
    return query


def rows_of(launch: Launch, table: str) -> list[dict[str, object]]:
    return in_order(launch.rows(table))


@ci_full
def test_nothing_of_a_person_is_left_and_the_stream_goes_on(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = launched(tmp_path, broker, USER_SESSIONS)
    batches = [(visits(1) + BROKEN, 2), (visits(45), 60), (visits(7), 60), (visits(70), 70)]
    run(launch, spark, "run-1", batches)
    operate(launch, "savepoint", reason="before")
    leave_traces(launch, PERSON)
    before = {trace.place.partition("/")[0] for trace in traces_in(tmp_path, PERSON)}
    assert {"checkpoint", "savepoints", "tables", "operations", "reconciliation", "logs", "quality"} <= before
    tables = ("sessions", "dead_letters", "late_events")
    kept = {
        name: [row for row in rows_of(launch, name) if PERSON not in str(_without(row))] for name in tables
    }
    assert all(len(launch.rows(name)) > len(kept[name]) > 0 for name in tables)

    _, dry = forget(launch, PERSON, monkeypatch, dry_run=True)
    assert (
        not dry.data["changed"] and launch.rows("sessions") and generations.current(launch.uri("checkpoint"))
    )
    _, told = forget(launch, PERSON, monkeypatch)

    left = {one for one in traces_in(tmp_path, PERSON) if one not in traces_in(tmp_path, f"{PERSON}0")}
    assert left == set(), told.lines
    assert {name: rows_of(launch, name) for name in tables} == kept
    assert [row["row_hash"] for row in launch.rows("quarantine")] == ["cd"]
    assert told.data["kafka"][0]["records"] == 5 and "retention.ms" in told.data["kafka"][0]["retention"]
    [entry] = Register(launch.uri("forgotten")).keys()
    assert (entry.digest, entry.stream) == (told.data["digest"], "user_sessions")
    assert generations.current(launch.uri("checkpoint")).number == 2
    assert len(list(folder_of(launch.uri("savepoints")).iterdir())) == 1, "a new one is there"

    state = run(launch, spark, "run-2", [(visits(75, ("bob",)), 200)])
    closed = {(row["user_id"], row["event_count"]) for row in launch.rows("sessions")}
    assert ("bob", 3) in closed, "the open session of another person went on"
    assert PERSON not in {user for user, _ in closed}
    counts = state.counted()
    assert counts["delivered"] == counts["accepted"] + counts["dead"] + counts["late"] + counts["duplicates"]


@only_full
def test_a_dry_run_changes_nothing_and_whoever_reads_again_leaves_the_records_out(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = launched(tmp_path, broker, USER_SESSIONS)
    run(
        launch, spark, "run-1", [(visits(1) + BROKEN, 2), (visits(45), 60), (visits(7), 60), (visits(70), 70)]
    )
    before = {name: launch.rows(name) for name in launch.table_names}
    request, dry = forget(launch, PERSON, monkeypatch, dry_run=True)
    assert (dry.data["changed"], dry.data["rows"]["sessions"], request.secret("key")) == (False, 1, None)
    assert {name: launch.rows(name) for name in launch.table_names} == before
    assert generations.current(launch.uri("checkpoint")).number == 1
    assert Register(launch.uri("forgotten")).keys() == ()
    forget(launch, PERSON, monkeypatch)

    again = Launch(tmp_path / "again", broker, launch.topic, partitions=1, stream=USER_SESSIONS)
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "forgotten").symlink_to(tmp_path / "forgotten")
    with running(again, spark) as query:
        settled(query, at(200))
        query.drain()
    assert {row["user_id"] for row in again.rows("sessions")} == set(OTHERS)
    assert sum(row["others"] or 0 for row in again.rows("batch_counts")) == 5


def _without(row: dict[str, object]) -> str:
    """A row as text, in which the other person's longer name is no trace."""
    return str({name: str(value).replace(f"{PERSON}0", "other") for name, value in row.items()})


@only_full
def test_an_operation_that_dies_is_finished_by_the_next_with_the_same_key(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = launched(tmp_path, broker, USER_SESSIONS)
    run(launch, spark, "run-1", [(visits(1), 2), (visits(45), 60)])
    operate(launch, "savepoint", reason="before")
    for place in ("remove_rows", "remove_generations", "erase"):
        with monkeypatch.context() as patch:
            patch.setattr(Places, place, _dies)
            with pytest.raises(OSError, match="the disk is full"):
                forget(launch, PERSON, patch)
        pending = generations.current(launch.uri("checkpoint")).pending is not None
        assert pending == (place == "remove_rows"), place
        if pending:
            with pytest.raises(PendingOperationError, match="stateward state forget user_sessions"):
                operate(launch, "savepoint", reason="meanwhile")
            with pytest.raises(StateError, match="begun to forget another key"):
                forget(launch, "bob", monkeypatch)
    _, told = forget(launch, PERSON, monkeypatch)
    others = traces_in(tmp_path, f"{PERSON}0")
    assert [one for one in traces_in(tmp_path, PERSON) if one not in others] == [], told.lines
    run(launch, spark, "run-2", [(visits(300, OTHERS), 400)])
    assert {row["user_id"] for row in launch.rows("sessions")} == set(OTHERS)


def _dies(*arguments: object, **more: object) -> None:
    raise OSError("the disk is full")


@pytest.mark.parametrize(
    "stream", [EVENT_WINDOWS, SESSION_WINDOWS, PAYMENT_AUTH_JOIN], ids=lambda one: one.name
)
@only_full
def test_a_key_of_sparks_operators_is_forgotten_and_the_others_rows_are_as_without_it(
    stream: Stream,
    tmp_path: Path,
    broker: RunningBroker,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows of a stream that has forgotten a key are those of one that never had it."""
    rows = {}
    for name, people in (("with", EVERYBODY), ("never", OTHERS)):
        folder = tmp_path / name
        folder.mkdir()
        launch = launched(folder, broker, stream)
        with running(launch, spark) as query:
            launch.send(facts(stream, 1, people), partition=0)
            settled(query, at(2))
            launch.send(facts(stream, 7, people), partition=0)
            settled(query, at(8))
            query.drain()
        if name == "with":
            assert traces_in(folder, PERSON)
            _, told = forget(launch, PERSON, monkeypatch)
            others = traces_in(folder, f"{PERSON}0")
            assert [one for one in traces_in(folder, PERSON) if one not in others] == [], told.lines
        with running(launch, spark, "run-2", checkpoint_uri=launch.checkpoint) as query:
            launch.send(facts(stream, 9, OTHERS), partition=0)
            settled(query, at(300))
            assert query.state_rows() == 0, "what is left of the state ends"
            query.drain()
        rows[name] = {table: rows_of(launch, table) for table in stream.tables}
    assert any(rows["with"].values())
    assert rows["with"] == rows["never"]


def facts(stream: Stream, minute: int, people: tuple[str, ...]) -> list[Record]:
    """Events of a stream: visits, or payments of which each has an authentication."""
    if stream is not PAYMENT_AUTH_JOIN:
        return [
            record("user_id", one, f"{one[-2:]}{minute}", minute, event_type="view", value=minute)
            for one in people
        ]
    kinds = ("transaction", "authenticated")
    return [
        record("account_id", one, f"{one[-2:]}{minute}{kind}", minute, kind=kind, amount=5)
        for one in people
        for kind in kinds
    ]
