"""The DAG of state operations: its form, its task, and the pages it links to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from stateward.airflow.compat import AirflowFailException, AirflowSkipException
from stateward.airflow.operators.operation_outcome import OperationOutcomeOperator
from stateward.airflow.operators.operation_params import asked_of
from stateward.airflow.operators.state_operation import (
    InspectStateOperator,
    SavepointBeforeOperator,
    StateOperationOperator,
)
from stateward.airflow.plugins.state_operations import StateOperationsPlugin, operations_app
from stateward.control.jobs.verb_field import field_parameter
from stateward.control.jobs.verbs import CHANGING_DAG, LOOKING_DAG, VERBS
from stateward.project.layout import Layout
from tests.airflow.conftest import ROOT, STREAM
from tests.support.pages.signed_in import signed_in

pytestmark = pytest.mark.airflow


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    monkeypatch.setenv("STATEWARD_AIRFLOW_URL", "http://airflow.example:8080/base")
    return Layout.of()


OPERATION = "20260101T000000Z-inspect"
TASKS = {
    CHANGING_DAG: ["check", "drain", "savepoint", "operate", "start", "watch", "outcome"],
    LOOKING_DAG: ["operate"],
}


def form(dag_id: str = CHANGING_DAG) -> dict[str, Any]:
    bag = DagBag(str(ROOT / "dags" / "none"))
    bag.process_file(str(ROOT / "dags" / "streams.py"), only_if_updated=False)
    assert bag.import_errors == {}
    assert TASKS.keys() <= bag.dags.keys()
    dag = bag.dags[dag_id]
    assert [task.task_id for task in dag.topological_sort() if "." not in task.task_id] == TASKS[dag_id]
    return {name: dag.params.get_param(name) for name in dag.params}


def test_verbs_that_look_and_verbs_that_change_are_granted_apart(layout: Layout) -> None:
    looks = {name for name, verb in VERBS.items() if verb.only_looks}
    assert looks == {"savepoints", "verify", "inspect", "advise", "explain", "export", "compare", "verdict"}
    assert set(form(LOOKING_DAG)["verb"].schema["enum"]) == looks
    assert not any(verb.takes_lease or verb.has_way_back for verb in VERBS.values() if verb.only_looks)
    changing = form(CHANGING_DAG)["verb"]
    # For one release programs may go on to look by the DAG that was the only one.
    assert set(changing.schema["enum"]) == set(VERBS)
    assert changing.schema["values_display"]["inspect"] == "inspect: use state_inspection"
    assert {form(dag_id)["verb"].resolve() for dag_id in TASKS} == {"inspect"}, (
        "as it stands nothing is changed"
    )


def test_the_task_of_the_dag_that_looks_does_nothing_else(layout: Layout) -> None:
    task = InspectStateOperator(task_id="operate", asks={"dry_run": False, "watch_s": 0})
    [line], _ = operate("savepoints", task=task)
    assert line == f"{STREAM} has 0 savepoints, of which 0 are good."
    [told], _ = operate("restore", task=task)
    assert "expected a verb that only looks, found restore. Trigger state_operations for it." in told


@pytest.mark.parametrize("dag_id", TASKS)
def test_the_form_has_a_section_for_each_verb_and_can_be_sent_as_it_is(layout: Layout, dag_id: str) -> None:
    parameters = form(dag_id)
    assert STREAM in parameters["stream"].schema["enum"]
    for verb in VERBS.values():
        if verb.dag_id != dag_id:
            continue
        for field in verb.fields:
            parameter = parameters[field_parameter(verb.name, field.name)]
            assert parameter.schema["section"].startswith(verb.name)
            parameter.resolve()  # as it stands in the form: no field of another verb is in the way
            # Airflow's form refuses an empty text, unless it may be null.
            assert parameter.value != ""
    if dag_id == LOOKING_DAG:
        return
    partitions = parameters[field_parameter("repartition", "partitions")]
    assert partitions.resolve(5) == 5
    with pytest.raises(Exception, match="minimum"):
        partitions.resolve(0)


class Ti:
    """What a task tells of itself."""

    def __init__(self) -> None:
        self.pushed: dict[str, str] = {}

    def xcom_push(self, key: str, value: str) -> None:
        self.pushed[key] = value


def operate(verb: str, task: StateOperationOperator | None = None, **changes: Any) -> tuple[list[str], Ti]:
    params = {name: parameter.resolve() for name, parameter in form().items()}
    ti = Ti()
    run = SimpleNamespace(dag_id="state_operations", run_id="manual", start_date=datetime.now(UTC))
    context: Any = {
        "params": {**params, "verb": verb, "stream": STREAM, **changes},
        "ti": ti,
        "dag_run": run,
    }
    task = task or StateOperationOperator(task_id="operate")
    try:
        return task.execute(context), ti
    except AirflowFailException as error:
        return [str(error)], ti


def test_the_task_runs_the_verb_and_links_to_its_page(layout: Layout) -> None:
    [line], ti = operate("savepoints")
    assert line == f"{STREAM} has 0 savepoints, of which 0 are good."
    link = ti.pushed["result_page"]
    assert link.startswith(f"/base/stateward/operations/{STREAM}/")
    page = Path(layout.operations_uri.removeprefix("file://")) / link.partition("/operations/")[2]
    assert line in page.read_text()


def test_a_refusal_fails_the_task_in_words(layout: Layout) -> None:
    [told], ti = operate("savepoint")
    assert told.startswith(f"stream {STREAM}: expected a checkpoint in ")
    assert "Start the stream first" in told
    assert ti.pushed["result_page"], "there is a page of what was refused, too"
    [told], ti = operate("explain")
    assert told == "explain: key: expected The key, found nothing"
    assert ti.pushed == {"reason": told}


@pytest.mark.parametrize(
    ("verb", "way_back"), [("repartition", True), ("migrate", True), ("split", False), ("restore", False)]
)
def test_what_can_be_taken_back_has_a_savepoint_before_it(layout: Layout, verb: str, way_back: bool) -> None:
    fields = {"split_into": "user_activity"} if verb == "split" else {}
    params = {name: parameter.resolve() for name, parameter in form().items()}
    context: Any = {
        "params": {**params, "verb": verb, "stream": STREAM, **fields},
        "dag_run": SimpleNamespace(dag_id="state_operations", run_id="r", start_date=datetime.now(UTC)),
    }
    asked = asked_of(context, None)
    asked.check()
    task = SavepointBeforeOperator(task_id="savepoint")
    if way_back:
        assert task.choose(asked)[0].name == "savepoint"
    else:
        with pytest.raises(AirflowSkipException):
            task.choose(asked)


@pytest.mark.parametrize(
    ("restored", "watched", "words"),
    [
        ("success", "success", "went back to the savepoint made before, and runs"),
        (
            "success",
            "failed",
            "does not run (the keys are of version 1). If this release cannot",
        ),
        ("failed", "upstream_failed", "could not be brought back: look at go_back.watch"),
        ("skipped", "skipped", ""),
    ],
)
def test_the_outcome_says_where_the_way_back_has_led(
    layout: Layout, restored: str, watched: str, words: str
) -> None:
    task = OperationOutcomeOperator(
        task_id="outcome", judged=["watch"], restored_by="go_back.restore", way_back="go_back.watch"
    )
    states = {"watch": "failed", "go_back.restore": restored, "go_back.watch": watched}
    reasons = {"watch": "no batch", "go_back.watch": "the keys are of version 1"}
    params = {name: parameter.resolve() for name, parameter in form().items()}
    context: Any = {
        "params": {**params, "verb": "migrate", "stream": STREAM},
        "dag_run": SimpleNamespace(dag_id="state_operations", run_id="r", start_date=datetime.now(UTC)),
        "ti": SimpleNamespace(
            dag_id="state_operations",
            run_id="r",
            get_task_states=lambda dag_id, run_ids: {"r": states},
            xcom_pull=lambda task_ids, key: reasons.get(task_ids),
            xcom_push=lambda key, value: None,
        ),
    }
    with pytest.raises(AirflowFailException) as told:
        task.execute(context)
    assert str(told.value).startswith("watch: no batch")
    assert words in str(told.value)
    assert words or "savepoint" not in str(told.value)


@pytest.fixture
def server(layout: Layout, metadata_database: Path) -> Iterator[SimpleNamespace]:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    folder = Path(layout.operation_uri(STREAM, OPERATION).removeprefix("file://"))
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<h1>state</h1>")
    (folder / "request.json").write_text(json.dumps({"config": "secret"}))
    outer = FastAPI()
    [mount] = StateOperationsPlugin.fastapi_apps
    outer.mount(mount["url_prefix"], operations_app())
    with signed_in() as token:
        yield SimpleNamespace(client=TestClient(outer, follow_redirects=False), cookies={"_token": token})


def test_pages_and_nothing_beside_them_are_for_people_who_are_logged_in(server: SimpleNamespace) -> None:
    folder = f"/stateward/operations/{STREAM}/{OPERATION}"
    assert server.client.get(f"{folder}/index.html").status_code == 401
    answer = server.client.get(f"{folder}/index.html", cookies=server.cookies)
    assert (answer.status_code, answer.text) == (200, "<h1>state</h1>")
    for path in ("request.json", "", "..%2f..%2f..%2fetc%2fpasswd.html"):
        answer = server.client.get(f"{folder}/{path}", cookies=server.cookies)
        assert answer.status_code == 404, path
        assert "secret" not in answer.text
