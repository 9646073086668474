"""Runs of two quality DAGs at the same time: one Spark job validates the tables of both."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import filelock
import msgspec
import pytest
from deltalake import DeltaTable

from proof.demo.scenario import EVENTS
from stateward.contract.names import QUALITY_VALIDATIONS
from stateward.quality.validation.request import parse_requests
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.full import ci_full
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.e2e, ci_full]

STREAMS = {"user_sessions", "shared"}


@pytest.fixture(scope="module")
def stream(platform: Installation) -> LiveStream:
    """The stream, with rows in its table."""
    stream = LiveStream("user_sessions", platform)
    stream.ensure_running()
    if not stream.rows("sessions", ["session_id"]):
        assert stream.replay(EVENTS, "--tick").wait(timeout=PATIENCE_S) == 0
        wait_until(lambda: stream.rows("sessions", ["session_id"]), PATIENCE_S, stream.describe, poll_s=1)
    return stream


def trigger(stream: LiveStream) -> dict[str, str]:
    """Trigger both DAGs; returns the run of each."""
    runs = {}
    with stream.airflow() as api:
        for dag in (f"quality_{name}" for name in sorted(STREAMS)):
            wait_until(partial(api.has_dag, dag), PATIENCE_S, f"DAG {dag} is parsed", poll_s=1)
            api.unpause(dag)
            runs[dag] = api.trigger(dag, {})
    return runs


def ended(stream: LiveStream, runs: dict[str, str]) -> bool:
    """Whether all runs have ended."""
    with stream.airflow() as api:
        return {api.run_state(dag, run) for dag, run in runs.items()} <= {"success", "failed"}


def waiting(folder: Path) -> set[str]:
    """The streams of the commands in the queue."""
    commands = [msgspec.json.decode(file.read_bytes(), type=list[str]) for file in folder.glob("*.json")]
    return {request.stream for command in commands for request in parse_requests(command)[0]}


def together(stream: LiveStream) -> list[Path]:
    """The logs of tasks whose job has validated tables of both."""
    logs = (stream.layout.home / "airflow" / "logs").glob("dag_id=quality_*/**/*.log")
    return [log for log in logs if all(f"{name}: validating " in log.read_text() for name in STREAMS)]


def test_the_job_of_one_run_validates_the_tables_of_the_other(stream: LiveStream) -> None:
    first = trigger(stream)
    wait_until(lambda: ended(stream, first), 2 * PATIENCE_S, f"the runs {first} end", poll_s=1)
    [folder] = (stream.layout.home / "locks" / "jobs").iterdir()
    before = together(stream)
    # As a task holds it whose job takes no more commands.
    held = filelock.FileLock(folder / ".lock")
    with held.acquire(timeout=PATIENCE_S):
        runs = trigger(stream)
        wait_until(
            lambda: waiting(folder) >= STREAMS,
            2 * PATIENCE_S,
            lambda: f"both wait; found commands of {waiting(folder)}",
            poll_s=1,
        )
    wait_until(lambda: ended(stream, runs), 2 * PATIENCE_S, f"the runs {runs} end", poll_s=1)
    assert {*together(stream)} - {*before}
    validations = DeltaTable(stream.layout.table_uri(QUALITY_VALIDATIONS)).to_pyarrow_table()
    found = {run_id.rpartition("/")[0] for run_id in validations.column("run_id").to_pylist()}
    assert {f"{dag}/{run}" for dag, run in runs.items()} <= found
