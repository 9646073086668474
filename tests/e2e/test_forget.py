"""A person is forgotten while the stream runs: no trace in any file of the data folder, nor in Airflow."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stateward.contract.storage import read_json
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.full import only_full
from tests.support.streams.event_files import as_line, write_lines
from tests.support.traces.search import Trace, traces_in, traces_in_database
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

PERSON = "person-ann-42-of-the-trace-test"
MINUTE = timedelta(minutes=1)


def visit(user: str, at: datetime, number: int) -> bytes:
    event = {
        "event_id": f"{user}-{number}",
        "user_id": user,
        "event_type": "view",
        "event_time": at.isoformat(),
    }
    return as_line(event)


def run_dag(stream: LiveStream, dag: str, conf: dict[str, Any]) -> str:
    """Run a DAG to its end, and return its state."""
    with stream.airflow() as api:
        wait_until(lambda: api.has_dag(dag), PATIENCE_S, f"DAG {dag} is parsed", poll_s=1)
        api.unpause(dag)
        run = api.trigger(dag, conf)
        ended = ("success", "failed")
        wait_until(lambda: api.run_state(dag, run) in ended, 4 * PATIENCE_S, f"{dag} {run} ends", poll_s=1)
        return api.run_state(dag, run)


@only_full
def test_no_file_and_no_row_of_airflow_has_a_trace_of_a_person(
    platform: Installation, tmp_path: Path, days_later: int
) -> None:
    stream, raw = LiveStream("user_sessions", platform), LiveStream("raw_events", platform)
    for one in (stream, raw):
        one.trigger("run")
        one.wait_running()
    day = datetime(2024, 3, 1, tzinfo=UTC) + timedelta(days=days_later)

    def send(*lines: bytes, tick: bool = True) -> None:
        before = {one.name: one.counted() for one in (stream, raw)}
        file = write_lines(tmp_path / "events.jsonl", lines)
        options = ("--tick", "--tick-after", "10m") if tick else ()
        assert stream.replay(file, *options).wait(timeout=PATIENCE_S) == 0
        for one in (stream, raw):
            wait_until(
                lambda one=one: one.counted() >= before[one.name] + len(lines),  # type: ignore[misc]
                PATIENCE_S,
                lambda one=one: f"{one.name} reads {len(lines)} records: {one.describe()}",  # type: ignore[misc]
            )

    # Statistics of a table keep 32 characters of a text: those of the longer name must not be a trace.
    people = (PERSON, "trace-bob", f"junior-{PERSON}")
    broken = b'{"user_id": "' + PERSON.encode() + b'", "event'
    send(*(visit(one, day + 10 * MINUTE, 1) for one in people), broken, b"no json")
    send(*(visit(one, day + 100 * MINUTE, 2) for one in people))
    send(*(visit(one, day + 20 * MINUTE, 3) for one in people))
    asked = {"stream": "user_sessions", "watch_s": 180}
    assert run_dag(stream, "state_operations", {**asked, "verb": "savepoint"}) == "success"
    stream.wait_running()
    shown = {"explain_key": PERSON, "explain_show_keys": True}
    assert run_dag(stream, "state_inspection", {**asked, "verb": "explain", **shown}) == "success"

    data = platform.settings.home / "data"
    database = platform.layout.airflow_home / "airflow.db"
    before = {trace.place.partition("/")[0] for trace in traces_in(data, PERSON)}
    assert {"checkpoints", "savepoints", "tables", "operations"} <= before
    assert {"dag_run.conf", "log.extra"} <= {trace.place for trace in traces_in_database(database, PERSON)}

    forget = {**asked, "verb": "forget", "forget_key": PERSON}
    assert run_dag(stream, "state_operations", forget) == "success"
    stream.wait_running()

    def left() -> list[Trace]:
        """What is left, but for the person with the longer name."""
        others = traces_in(data, f"junior-{PERSON}")
        files = [one for one in traces_in(data, PERSON) if one not in others]
        logs = traces_in(platform.layout.airflow_home / "logs", PERSON)
        return [*files, *traces_in_database(database, PERSON), *logs]

    # The scheduler erases the conf when it ends the run.
    wait_until(lambda: not traces_in_database(database, PERSON), PATIENCE_S, "the conf is erased")
    assert left() == []
    result = newest_result(data)
    assert sum(row["records"] for row in result["data"]["kafka"]) == 4
    assert "retention.ms" in result["data"]["kafka"][0]["retention"]

    send(visit("trace-bob", day + 400 * MINUTE, 4))
    wait_until(
        lambda: (
            sorted(
                row["event_count"]
                for row in stream.rows("sessions", ["user_id", "event_count"])
                if row["user_id"] == "trace-bob"
            )
            == [1, 1]
        ),
        PATIENCE_S,
        lambda: f"the other person's sessions go on: {stream.describe()}",
    )
    assert PERSON not in {row["user_id"] for row in stream.rows("sessions", ["user_id"])}
    span = {"from": day.isoformat(), "to": (day + timedelta(hours=3)).isoformat()}
    assert run_dag(stream, "reconcile_user_sessions", span) == "success"
    report = read_json(f"{platform.layout.reconciliation_uri('user_sessions')}/report.json")
    assert report is not None and report["equal"] is True, json.dumps(report)[:2000]
    assert left() == []


def newest_result(data: Path) -> dict[str, Any]:
    """The result of the newest `forget`."""
    found = sorted((data / "operations" / "user_sessions").glob("*-forget/result.json"))
    document: dict[str, Any] = json.loads(found[-1].read_text())
    return document
