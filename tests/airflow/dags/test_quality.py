"""The quality DAG and its operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import filelock
import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset
from deltalake import write_deltalake

from stateward.airflow.compat import AirflowException, AirflowFailException, AirflowSkipException
from stateward.airflow.operators import validate_table
from stateward.airflow.operators.validate_table import ValidateTableOperator
from stateward.airflow.operators.validation_params import Asked, is_wanted, requested
from stateward.airflow.shared_job import queue_of
from stateward.airflow.triggers.table_update import TableUpdateTrigger
from stateward.contract.job_queue import JobQueue
from stateward.project.airflow_options import SPARK_CONNECTION
from stateward.project.layout import Layout
from stateward.quality.validation.request import parse_requests
from tests.airflow.conftest import ROOT, STREAM
from tests.support.control.started import mark_started

pytestmark = pytest.mark.airflow

RUN_ID = f"quality_{STREAM}/manual__1/1"
DOCS_PATH = "validations/sessions/a run/sessions v7.html"


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", SPARK_CONNECTION)
    monkeypatch.setenv("STATEWARD_AIRFLOW_URL", "http://airflow.example:8080/base")
    mark_started()
    return Layout.of()


def load() -> DagBag:
    bag = DagBag(str(ROOT / "dags" / "none"))
    bag.process_file(str(ROOT / "dags" / "streams.py"), only_if_updated=False)
    return bag


def test_the_dag_runs_after_changes_and_on_a_schedule_one_at_a_time(layout: Layout) -> None:
    bag = load()
    assert bag.import_errors == {}
    dag = bag.dags[f"quality_{STREAM}"]
    assert [task.task_id for task in dag.tasks] == ["validate"]
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    assert dag.is_paused_upon_creation is None
    timetable: Any = dag.timetable
    [asset] = timetable.asset_condition.objects
    assert asset.uri == layout.table_uri("sessions")
    [watcher] = asset.watchers
    assert isinstance(watcher.trigger, TableUpdateTrigger)
    assert timetable.timetable.expression == "0 3 * * *"
    for name in ("from_version", "to_version"):
        version = dag.params.get_param(name)
        assert version.resolve(None) is None
        assert version.resolve(3) == 3
    assert dag.params["table"] == "sessions"


def test_the_tables_of_one_stream_are_validated_one_after_the_other(layout: Layout) -> None:
    bag = load()
    dag = bag.dags["quality_fraud_watch"]
    assert [task.task_id for task in dag.tasks] == ["validate_fraud_alerts", "validate_fraud_summaries"]
    assert dag.max_active_tasks == 1
    timetable: Any = dag.timetable
    assert {asset.uri for asset in timetable.asset_condition.objects} == {
        layout.table_uri("fraud_alerts"),
        layout.table_uri("fraud_summaries"),
    }
    assert dag.params["table"] is None
    shared = bag.dags["quality_shared"]
    tasks: list[Any] = shared.tasks
    assert [task.table for task in tasks] == ["dead_letters", "late_events", "batch_counts"]
    assert [task.later for task in tasks] == [("late_events", "batch_counts"), ("batch_counts",), ()]
    assert [task.priority_weight for task in tasks] == [3, 2, 1]
    minutes = [task.execution_timeout.total_seconds() / 60 for task in tasks]
    assert minutes == [120, 90, 60]


def make_table(layout: Layout) -> None:
    write_deltalake(layout.table_uri("sessions"), pa.table({"n": [1]}))


class TaskInstance:
    """What the operator asks of its task instance."""

    dag_id, run_id, try_number = f"quality_{STREAM}", "manual__1", 1

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


class OutletEvents:
    """What a task says in the events of its assets, as far as one that has one asset sees it."""

    def __init__(self) -> None:
        self.said = SimpleNamespace(extra={})

    def __getitem__(self, asset: Asset) -> SimpleNamespace:
        return self.said


def context(*payloads: dict[str, Any], **params: Any) -> Any:
    asset_events = [SimpleNamespace(extra={"payload": payload}) for payload in payloads]
    return {
        "ti": TaskInstance(),
        "params": {"table": None, "from_version": None, "to_version": None} | params,
        "triggering_asset_events": {"asset": asset_events},
        "outlet_events": OutletEvents(),
    }


def write_results(layout: Layout, *rows: dict[str, Any]) -> None:
    same = {
        "stream": STREAM,
        "table": "sessions",
        "from_version": 3,
        "table_version": 7,
        "run_id": RUN_ID,
        "docs_path": DOCS_PATH,
    }
    write_deltalake(
        layout.table_uri("quality_results"),
        pa.Table.from_pylist([same | row for row in rows]),
        mode="append",
        partition_by=["stream"],
    )
    write_deltalake(
        layout.table_uri("quality_validations"),
        pa.Table.from_pylist([{key: (same | rows[0])[key] for key in ("stream", "table", "run_id")}]),
        mode="append",
        partition_by=["stream"],
    )


PASSED = {"name": "id_is_present", "severity": "critical", "success": True, "observed_value": "fine"}
WARNED = {"name": "has_rows", "severity": "warn", "success": False, "observed_value": "0"}
BROKEN = {
    "name": "id_is_unique",
    "severity": "critical",
    "success": False,
    "observed_value": "2 unexpected rows",
}


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Replaces spark-submit alone: a list of what it does, and then of what it was given."""
    done: list[Any] = []

    def execute(self: SparkSubmitOperator, given: Any) -> None:
        for act in [item for item in done if callable(item)]:
            act()
        done.append(self.application_args)

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    yield done


def make_operator() -> ValidateTableOperator:
    return ValidateTableOperator(task_id="validate", stream=STREAM, table="sessions")


def fail_submit() -> None:
    raise AirflowException("Cannot execute: spark-submit. Error code is: 2.")


def test_a_failed_expectation_fails_without_retry_and_says_what_and_where(
    layout: Layout, submit: list[Any]
) -> None:
    make_table(layout)
    submit += [lambda: write_results(layout, PASSED, WARNED, BROKEN), fail_submit]
    given = context(table="sessions", to_version=7)
    with pytest.raises(AirflowFailException) as raised:
        make_operator().execute(given)
    url = (
        "http://airflow.example:8080/base/stateward/data-docs/validations/sessions/a%20run/sessions%20v7.html"
    )
    assert str(raised.value).splitlines() == [
        f"{STREAM}: 2 of 3 expectations fail for sessions, versions 3 to 7.",
        "  - id_is_unique (critical): 2 unexpected rows",
        "  - has_rows (warn): 0",
        f"Report: {url}",
        "The page of the suite, linked from the report, says what each of them means and what to do.",
        f"The stream keeps running. DAGs scheduled on {STREAM}.sessions.valid do not start.",
    ]
    assert given["ti"].pushed == {"data_docs": url.removeprefix("http://airflow.example:8080")}


def test_a_sound_version_passes_and_is_linked(layout: Layout, submit: list[Any]) -> None:
    make_table(layout)
    submit += [lambda: write_results(layout, PASSED)]
    given = context({"table": "sessions", "version": 4}, {"table": "sessions", "version": 6})
    make_operator().execute(given)
    assert given["ti"].pushed["data_docs"].endswith("sessions%20v7.html")
    arguments = dict(zip(submit[-1][::2], submit[-1][1::2], strict=True))
    assert (arguments["--from-version"], arguments["--to-version"]) == ("next", "latest")
    assert arguments["--run-id"] == RUN_ID
    assert Path(arguments["--suite-file"]).is_file()


def test_a_validation_that_could_not_be_done_is_tried_again(layout: Layout, submit: list[Any]) -> None:
    make_table(layout)
    submit += [fail_submit]
    with pytest.raises(AirflowException, match="Error code is: 2") as raised:
        make_operator().execute(context())
    assert not isinstance(raised.value, AirflowFailException)
    submit.clear()
    with pytest.raises(AirflowException, match="wrote no results"):
        make_operator().execute(context())


LATER = ("late", "absent", "done")
"""Tables that the job of `sessions` is to validate as well: of them one does not exist, one is validated."""


def tables_given(submit: list[Any]) -> list[str]:
    given = submit[-1]
    return [given[at + 1] for at, part in enumerate(given) if part == "--table"]


def operator_of(table: str = "sessions", later: tuple[str, ...] = LATER) -> ValidateTableOperator:
    return ValidateTableOperator(task_id=f"validate_{table}", stream=STREAM, table=table, later=later)


@pytest.fixture
def three_tables(layout: Layout) -> Layout:
    for table in ("sessions", "late", "done"):
        write_deltalake(layout.table_uri(table), pa.table({"n": [1]}))
    write_results(layout, {**PASSED, "table": "done"})
    return layout


def test_a_task_validates_the_tables_of_later_tasks_in_its_job(
    three_tables: Layout, submit: list[Any]
) -> None:
    submit += [lambda: write_results(three_tables, PASSED)]
    operator_of().execute(context())
    assert tables_given(submit) == ["sessions", "late"]
    given = submit[-1]
    uris = [given[at + 1] for at, part in enumerate(given) if part == "--table-uri"]
    assert uris == [three_tables.table_uri("sessions"), three_tables.table_uri("late")]
    assert [given.count(name) for name in ("--suite-file", "--run-id", "--stream")] == [2, 1, 1]


def test_tables_that_the_run_is_not_about_are_not_in_the_job(three_tables: Layout, submit: list[Any]) -> None:
    for given in (context(table="sessions"), context({"table": "sessions"})):
        with pytest.raises(AirflowException, match="wrote no results"):
            operator_of().execute(given)
        assert tables_given(submit) == ["sessions"]


def test_a_table_that_the_run_has_validated_is_only_judged(three_tables: Layout, submit: list[Any]) -> None:
    given = context()
    operator_of("done", ()).execute(given)
    assert submit == []
    assert given["ti"].pushed["data_docs"].endswith("sessions%20v7.html")
    assert given["outlet_events"].said.extra["table"] == "done"
    write_results(three_tables, {**BROKEN, "table": "late"})
    with pytest.raises(AirflowFailException, match="1 of 1 expectations fail for late"):
        operator_of("late", ()).execute(context())
    assert submit == []


def test_a_task_that_is_tried_again_validates_its_own_table_again(
    three_tables: Layout, submit: list[Any]
) -> None:
    given = context()
    given["ti"].try_number = 2
    submit += [lambda: write_results(three_tables, {**PASSED, "run_id": f"{RUN_ID[:-1]}2"})]
    operator_of().execute(given)
    assert tables_given(submit) == ["sessions"]


def test_the_failure_of_another_table_fails_only_its_own_task(
    three_tables: Layout, submit: list[Any]
) -> None:
    submit += [lambda: write_results(three_tables, PASSED), fail_submit]
    given = context()
    operator_of().execute(given)
    assert given["outlet_events"].said.extra["table"] == "sessions"


def test_the_job_of_another_task_validates_the_table_in_its_session(
    layout: Layout, submit: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(layout)
    operator = make_operator()
    handed: list[list[str]] = []

    def take_over(self: ValidateTableOperator) -> None:
        [queue] = (layout.home / "locks" / "jobs").iterdir()
        with JobQueue(queue).take() as taken:
            handed.append(taken or [])
            write_results(layout, PASSED)

    def hold(*given: Any) -> JobQueue:
        queue = queue_of(*given)
        queue.folder.mkdir(parents=True)
        held.append(filelock.FileLock(queue.folder / ".lock", is_singleton=False))
        held[0].acquire()
        return queue

    held: list[filelock.BaseFileLock] = []
    monkeypatch.setattr(validate_table, "queue_of", hold)
    monkeypatch.setattr(ValidateTableOperator, "_log_that_it_waits", take_over)
    given = context()
    operator.execute(given)
    held[0].release()
    assert submit == []
    assert [parse_requests(one)[0][0].table for one in handed] == ["sessions"]
    assert given["ti"].pushed["data_docs"].endswith("sessions%20v7.html")


def test_results_of_a_validation_that_was_not_recorded_do_not_count(
    layout: Layout, submit: list[Any]
) -> None:
    """The next validation covers the same versions again."""
    make_table(layout)
    write_results(layout, {**BROKEN, "run_id": "another"})
    rows = [{**BROKEN, "stream": STREAM, "table": "sessions", "run_id": RUN_ID}]
    write_deltalake(
        layout.table_uri("quality_results"), pa.Table.from_pylist(rows), mode="append", schema_mode="merge"
    )
    submit += [fail_submit]
    with pytest.raises(AirflowException, match="Error code is: 2"):
        make_operator().execute(context())


def test_a_missing_table_is_skipped(layout: Layout, submit: list[Any]) -> None:
    with pytest.raises(AirflowSkipException, match="there is no table at"):
        make_operator().execute(context())
    assert submit == []


def test_a_range_is_asked_for_in_the_form_with_its_table() -> None:
    assert requested(context(), "sessions") == Asked(None, None)
    asked = context(table="sessions", from_version=0, to_version=4)
    assert requested(asked, "sessions") == Asked(0, 4)
    with pytest.raises(AirflowFailException, match="sessions: expected a table"):
        requested(context(from_version=2), "sessions")


def test_a_run_is_about_the_chosen_table_or_those_that_changed_or_all(
    layout: Layout, submit: list[Any]
) -> None:
    assert is_wanted(context(), "sessions")
    assert is_wanted(context({"table": "sessions"}, {"table": "others"}), "sessions")
    assert is_wanted(context({"table": "others"}, table="sessions"), "sessions")
    make_table(layout)
    for other in (context({"table": "others"}), context(table="others")):
        with pytest.raises(AirflowSkipException, match="not about sessions"):
            make_operator().execute(other)
    assert submit == []


def test_the_operator_has_the_link_and_the_link_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.execution_time.xcom import XCom

    links: Any = make_operator().operator_extra_links
    link, overview = links
    assert (link.name, overview.name) == ("Data Docs", "Quality overview")
    stored: dict[str, str | None] = {"data_docs": "/stateward/data-docs/x.html"}
    monkeypatch.setattr(XCom, "get_value", lambda *, ti_key, key: stored[key])
    assert link.get_link(make_operator(), ti_key=None) == "/stateward/data-docs/x.html"
    stored["data_docs"] = None  # skipped: there is no report
    assert link.get_link(make_operator(), ti_key=None) == ""
    page = "/stateward/quality/table.html?stream=user_sessions&table=sessions"
    assert overview.get_link(make_operator(), ti_key=None) == page
