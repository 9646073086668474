"""The DAGs of reconciliation, and what their task makes of a report; the Spark job is a stand-in."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import DagBag
from deltalake import write_deltalake

from stateward.airflow.compat import AirflowException, AirflowFailException, AirflowSkipException
from stateward.airflow.operators.reconcile_stream import ReconcileStreamOperator
from stateward.contract.storage import read_json, write_json
from stateward.control.jobs import batch_job
from stateward.control.jobs.backfill_request import why_not_replayable
from stateward.project.layout import Layout
from stateward.project.spec import load_specs
from tests.airflow.conftest import ROOT, STREAM
from tests.support.control.started import mark_started

pytestmark = pytest.mark.airflow

SPAN = {"from": "2024-03-01T00:00:00.000Z", "to": "2024-03-02T00:00:00.000Z"}


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    connection = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    mark_started()
    return Layout.of()


def load() -> DagBag:
    bag = DagBag(str(ROOT / "dags" / "none"))
    bag.process_file(str(ROOT / "dags" / "streams.py"), only_if_updated=False)
    assert bag.import_errors == {}
    return bag


def test_each_stream_that_can_be_computed_again_has_a_daily_dag(layout: Layout) -> None:
    dags = {name: dag for name, dag in load().dags.items() if name.startswith("reconcile_")}
    streams = [spec.stream for spec in load_specs()[0] if why_not_replayable(spec) is None]
    assert set(dags) == {f"reconcile_{stream}" for stream in streams}
    timetables: list[Any] = [dag.timetable for dag in dags.values()]
    times = {timetable.expression for timetable in timetables}
    assert len(times) == len(dags), "two Spark jobs begin at the same time"
    dag = dags[f"reconcile_{STREAM}"]
    assert [task.task_id for task in dag.topological_sort()] == ["deployed", "reconcile"]
    assert (dag.max_active_runs, dag.catchup, dag.is_paused_upon_creation) == (1, False, None)
    for name in ("from", "to"):
        parameter = dag.params.get_param(name)
        assert parameter.resolve(None) is None
        assert parameter.resolve("2024-03-01T00:00:00Z") == "2024-03-01T00:00:00Z"


def test_a_schedule_of_null_leaves_it_to_runs_by_hand(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Path(shutil.copytree(ROOT / "include" / "streams", tmp_path / "streams"))
    file = streams / f"{STREAM}.yaml"
    text, _, _ = file.read_text().partition("\nreconciliation:")
    file.write_text(f"{text}\nreconciliation: {{schedule: null}}\n")
    monkeypatch.setenv("STATEWARD_STREAMS", str(streams))
    assert load().dags[f"reconcile_{STREAM}"].timetable.can_be_scheduled is False


class Job:
    """In place of the Spark job: writes a report, or fails; keeps the requests that it was given."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.tables: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.error = ""

    def run(self, command: list[str], variables: dict[str, str], log: Path, report: Any) -> bool:
        request = read_json(command[-1])
        assert request is not None
        self.requests.append(request)
        if self.error:
            raise batch_job.JobError(self.error)
        report("events", "reading")
        write_json(
            request["report_uri"],
            {
                "stream": STREAM,
                **SPAN,
                "sure": SPAN,
                "counts": {},
                "tables": self.tables,
                "notes": self.notes,
            },
        )
        return all(entry["equal"] for entry in self.tables)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    made = Job()
    monkeypatch.setattr(batch_job, "run", made.run)
    return made


def entry(different: int, sure: int) -> dict[str, Any]:
    row = {"only_in": "live", "difference": "not in the events", "differs_in": None, "session_id": "s1"}
    return {
        "table": "sessions",
        "equal": not different,
        "compared": 20,
        "different": different,
        "sure": sure,
        "kinds": {"not in the events": different},
        "shown": [row] * different,
        "differences_uri": "file:///differences/sessions",
        "differences_version": 3,
    }


def make_tables(layout: Layout) -> None:
    for name in ("raw_events", "sessions", "late_events"):
        write_deltalake(layout.table_uri(name), pa.table({"n": [1]}))


def reconcile(**params: Any) -> dict[str, Any]:
    at = datetime(2024, 3, 2, 5, 30, tzinfo=UTC)
    context: Any = {
        "params": {"from": None, "to": None, **params},
        "ti": SimpleNamespace(try_number=2),
        "dag_run": SimpleNamespace(dag_id="reconcile", run_id="nightly", logical_date=None, run_after=at),
    }
    return ReconcileStreamOperator(task_id="reconcile", stream=STREAM).execute(context)


def test_the_job_is_asked_for_the_day_before_or_the_range_of_the_form(layout: Layout, job: Job) -> None:
    make_tables(layout)
    job.tables = [entry(0, 0)]
    assert reconcile() == {"sessions": 20}
    reconcile(**{"from": "2024-02-01T12:00:00+02:00", "to": "2024-02-03T00:00:00Z"})
    nightly, asked = job.requests
    day = [datetime(2024, 3, day, tzinfo=UTC).timestamp() * 1000 for day in (1, 2)]
    assert [nightly["from_ms"], nightly["to_ms"]] == day
    assert asked["from_ms"] == datetime(2024, 2, 1, 10, tzinfo=UTC).timestamp() * 1000
    assert nightly["record"] == {"uri": layout.table_uri("reconciliations"), "run_id": "reconcile/nightly/2"}
    assert (nightly["compare"], nightly["into_uri"]) == (True, layout.reconciliation_uri(STREAM))
    with pytest.raises(AirflowFailException, match="expected --from before --to"):
        reconcile(**{"from": "2024-03-05T00:00:00Z"})
    with pytest.raises(AirflowFailException, match=r"to: expected a date or time .* found 'yesterday'"):
        reconcile(to="yesterday")


def test_an_error_in_a_table_fails_without_another_try(layout: Layout, job: Job) -> None:
    make_tables(layout)
    job.tables = [entry(1, 1)]
    with pytest.raises(AirflowFailException) as raised:
        reconcile()
    for words in (
        "sessions: 1 of 20 rows differs",
        "session_id s1",
        "file:///differences/sessions, version 3",
    ):
        assert words in str(raised.value)


def test_what_may_be_right_is_skipped_with_the_reason(layout: Layout, job: Job) -> None:
    make_tables(layout)
    job.tables, job.notes = [entry(2, 0)], ["The stream has got to noon."]
    with pytest.raises(AirflowSkipException, match="Note: The stream has got to noon"):
        reconcile()


def test_equal_tables_with_a_note_succeed_and_the_note_is_a_warning(
    layout: Layout, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tables(layout)
    job.tables, job.notes = [entry(0, 0)], ["Only changed keys are compared."]
    reconcile()
    [line] = [line for line in capsys.readouterr().out.splitlines() if "Note:" in line]
    assert "warning" in line
    assert "Only changed keys are compared." in line


def test_a_job_that_could_not_be_done_is_tried_again(layout: Layout, job: Job) -> None:
    make_tables(layout)
    job.error = "out of memory"
    with pytest.raises(AirflowException, match="out of memory") as raised:
        reconcile()
    assert not isinstance(raised.value, AirflowFailException)


def test_without_tables_there_is_nothing_to_compare(layout: Layout, job: Job) -> None:
    with pytest.raises(AirflowSkipException, match=r"raw_events yet, .* when the stream raw_events starts"):
        reconcile()
    assert job.requests == []
