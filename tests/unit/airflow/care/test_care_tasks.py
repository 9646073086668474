"""The tasks of `state_<stream>` that decide whether something is asked or done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from stateward.airflow.care import act as act_module
from stateward.airflow.care.act import ActCareOperator, ApproveCareOperator, SavepointCareOperator
from stateward.airflow.care.context import DECISION_JSON
from stateward.airflow.care.look import AdviseCareOperator, DryRunCareOperator
from stateward.airflow.compat import AirflowFailException, AirflowSkipException
from stateward.airflow.operators.operation_params import Asked
from stateward.airflow.operators.state_operation import StateOperationOperator
from stateward.contract.state_care import CareRecord
from stateward.control.care.policy import Policy, decide
from stateward.control.care.record import read_record
from stateward.project.layout import Layout
from tests.support.small_spec import small_spec
from tests.unit.control.care.test_policy import LOOK, MORE, NOW, UNEVEN, nightly, rules


class Ti:
    """What a task tells of itself, and finds of the others."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found
        self.pushed: dict[str, Any] = {}
        self.dag_id, self.run_id, self.id = "state_small", "r", "ti"

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        return self.found.get(f"{task_ids}/{key}")

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def get_dag(self, dag_id: str) -> Any:
        return SimpleNamespace(is_paused=(dag_id, "paused") in self.found.items())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    streams = tmp_path / "streams"
    streams.mkdir()
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    monkeypatch.setenv("STATEWARD_STREAMS", str(streams))
    small_spec(streams)
    return streams


def context_of(
    record: CareRecord, policy: Policy, *, opened: timedelta = timedelta(0), **found: Any
) -> dict[str, Any]:
    decision = decide(rules(policy), record, NOW)
    pulled = {"advise/decision": DECISION_JSON.dump_python(decision, mode="json"), **found}
    ti = Ti({name.replace("__", "/"): value for name, value in pulled.items()})
    now = datetime.now(UTC)
    run = SimpleNamespace(dag_id="state_small", run_id="r", run_after=now - opened, start_date=now)
    return {"ti": ti, "task_instance": ti, "dag_run": run, "params": {}}


def triggered(task: Any, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    """What the task triggers `state_operations` with; None if it was skipped."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(TriggerDagRunOperator, "execute", lambda self, context: seen.append(self.conf))
    try:
        task.execute(context)
    except AirflowSkipException:
        return None
    return seen[0]


def changes() -> list[tuple[str, str, str]]:
    found = read_record(Layout.of(), "small").changes
    return [(one.kind, one.outcome, one.by) for one in found]


THREE = nightly(MORE, MORE, MORE)
ANN = {"id": "1", "name": "ann"}
YES, NO = {"approved": True, "by": "ann"}, {"approved": False, "by": "ann"}


LATE = {"opened": timedelta(hours=5)}


@pytest.mark.parametrize(
    ("record", "policy", "given", "expected"),
    [
        pytest.param(THREE, "auto", {}, ("repartition", "begun", ""), id="auto"),
        pytest.param(THREE, "auto", LATE, None, id="the window has closed"),
        pytest.param(nightly(MORE), "auto", {}, None, id="not held"),
        pytest.param(THREE, "propose", {}, None, id="only proposed"),
        pytest.param(nightly(LOOK), "auto", {}, None, id="nothing advised"),
        pytest.param(THREE, "approve", {}, None, id="no answer"),
        pytest.param(THREE, "approve", {"approve__answer": NO}, None, id="refused"),
        pytest.param(THREE, "approve", {"approve__answer": YES, **LATE}, None, id="approved too late"),
        pytest.param(
            THREE, "approve", {"approve__answer": YES}, ("repartition", "begun", "ann"), id="approved"
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_only_what_may_happen_is_triggered_and_is_on_record_before_it(
    monkeypatch: pytest.MonkeyPatch,
    record: CareRecord,
    policy: Policy,
    given: dict[str, Any],
    expected: tuple[str, str, str] | None,
) -> None:
    task = ActCareOperator(task_id="act", stream="small")
    conf = triggered(task, context_of(record, policy, **given), monkeypatch)
    assert changes() == ([expected] if expected else [])
    if expected is None:
        assert conf is None
        return
    assert conf == {
        "stream": "small",
        "verb": "repartition",
        "dry_run": False,
        "watch_s": 180,
        "repartition_partitions": 4,
    }


@pytest.mark.usefixtures("folder")
def test_a_paused_dag_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    task = ActCareOperator(task_id="act", stream="small")
    context = context_of(THREE, "auto", state_operations="paused")
    with pytest.raises(AirflowFailException, match="stream small: expected the DAG state_operations to run"):
        triggered(task, context, monkeypatch)


def test_a_release_that_was_deployed_meanwhile_is_not_brought_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(act_module, "is_outdated", lambda spec: True)
    context = context_of(THREE, "auto")
    assert triggered(ActCareOperator(task_id="act", stream="small"), context, monkeypatch) is None
    assert changes() == []


def test_a_savepoint_is_made_in_the_window_unless_the_yaml_wants_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(**given: Any) -> dict[str, Any] | None:
        task = SavepointCareOperator(task_id="savepoint", stream="small")
        return triggered(task, context_of(nightly(LOOK), "propose", **given), monkeypatch)

    found = made()
    assert found is not None
    assert (found["verb"], found["savepoint_reason"]) == ("savepoint", "state care, state_small/r")
    assert made(opened=timedelta(hours=4)) is None
    small_spec(folder, savepoints=None)
    assert made() is None


@pytest.mark.usefixtures("folder")
def test_without_a_committed_batch_nothing_is_looked_at_and_nothing_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StateOperationOperator, "execute", lambda self, context: [])
    monkeypatch.setattr(Asked, "result", lambda self, verb: {"data": {"look": None}})
    context = context_of(nightly(LOOK), "auto")
    lines = AdviseCareOperator(task_id="advise", stream="small").execute(context)  # type: ignore[arg-type]
    assert lines == [
        "small: nothing to change: no batch has been committed yet, so there is nothing to look at."
    ]
    assert read_record(Layout.of(), "small").looks == ()
    ti = context["ti"]
    ti.found = {f"advise/{name}": value for name, value in ti.pushed.items()}
    for task in (
        SavepointCareOperator(task_id="savepoint", stream="small"),
        ActCareOperator(task_id="act", stream="small"),
    ):
        assert triggered(task, context, monkeypatch) is None


@pytest.mark.usefixtures("folder")
def test_a_result_without_a_look_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateOperationOperator, "execute", lambda self, context: [])
    monkeypatch.setattr(Asked, "result", lambda self, verb: {"data": {}})
    with pytest.raises(AirflowFailException, match="stream small: advise"):
        AdviseCareOperator(task_id="advise", stream="small").execute(context_of(nightly(LOOK), "auto"))  # type: ignore[arg-type]


def test_a_person_is_asked_with_the_page_the_pause_and_the_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **given: asked.update(given)
    )
    task = ApproveCareOperator(task_id="approve", stream="small")
    page = "/stateward/operations/small/x/index.html"
    # It is parked with Airflow 3.3, and deferred to a trigger with older ones.
    with pytest.raises(BaseException, match=r"^$") as waits:
        task.execute(context_of(THREE, "approve", opened=timedelta(hours=1), dry_run__result_page=page))  # type: ignore[arg-type]
    assert asked["subject"] == "small: 4 partitions in place of 2?"
    assert (asked["options"], asked["defaults"]) == (["Approve", "Reject"], ["Reject"])
    for part in (page, "The stream is stopped for about 3 min 26 s", "more partitions: 4 in place of 2"):
        assert part in asked["body"]
    waiting: Any = waits.value
    assert waiting.method_name == "execute_complete"
    left = waiting.timeout or waiting.trigger.timeout_datetime - datetime.now(UTC)
    assert timedelta(hours=2, minutes=58) < left <= timedelta(hours=3), "until the window closes"


@pytest.mark.parametrize(("policy", "opened"), [("propose", 0), ("auto", 0), ("approve", 4)])
def test_where_nothing_may_be_asked_nothing_is(folder: Path, policy: Policy, opened: int) -> None:
    task = ApproveCareOperator(task_id="approve", stream="small")
    with pytest.raises(AirflowSkipException):
        task.execute(context_of(THREE, policy, opened=timedelta(hours=opened)))  # type: ignore[arg-type]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("event", "answer", "record"),
    [
        pytest.param(
            {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": "ann"}},
            YES,
            [],
            id="yes",
        ),
        pytest.param(
            {"chosen_options": ["Reject"], "responded_by_user": {"id": "1", "name": "ann"}},
            NO,
            [("repartition", "refused", "ann")],
            id="no",
        ),
        pytest.param(
            {"chosen_options": ["Reject"], "responded_by_user": None, "timedout": True},
            {"approved": False, "by": ""},
            [],
            id="no answer in time",
        ),
    ],
)
def test_a_refusal_is_remembered_and_silence_is_none(
    event: dict[str, Any],
    answer: dict[str, Any],
    record: list[tuple[str, str, str]],
) -> None:
    task = ApproveCareOperator(task_id="approve", stream="small")
    context = context_of(THREE, "approve")
    given = {"params_input": {}, "responded_at": datetime.now(UTC), **event}
    task.execute_complete(context, given)  # type: ignore[arg-type]
    assert context["ti"].pushed["answer"] == answer
    assert changes() == record


def test_where_nothing_is_proposed_nothing_is_tried(folder: Path) -> None:
    task = DryRunCareOperator(task_id="dry_run", stream="small")
    with pytest.raises(AirflowSkipException, match="nothing is proposed"):
        task.execute(context_of(nightly(LOOK), "propose"))  # type: ignore[arg-type]


def test_another_number_of_buckets_is_a_migration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = ActCareOperator(task_id="act", stream="small")
    conf = triggered(task, context_of(nightly(UNEVEN, UNEVEN, UNEVEN), "auto"), monkeypatch)
    assert conf is not None
    assert (conf["verb"], conf["migrate_buckets"]) == ("migrate", 256)
