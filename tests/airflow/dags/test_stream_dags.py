"""The DAGs that are generated from YAML."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from tests.airflow.conftest import ROOT, STREAM

pytestmark = pytest.mark.airflow


def load(monkeypatch: pytest.MonkeyPatch, folder: Path) -> DagBag:
    monkeypatch.setenv("STATEWARD_STREAMS", str(folder))
    bag = DagBag(str(folder / "none"))
    for name in ("streams.py", "streams_yaml_check.py"):
        bag.process_file(str(ROOT / "dags" / name), only_if_updated=False)
    return bag


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "include" / "streams", tmp_path / "streams"))


def test_each_yaml_is_a_dag_that_deploys_then_supervises(
    monkeypatch: pytest.MonkeyPatch, streams: Path
) -> None:
    bag = load(monkeypatch, streams)
    assert bag.import_errors == {}
    dag = bag.dags[f"stream_{STREAM}"]
    assert [task.task_id for task in dag.topological_sort()] == ["upgrade", "remove", "deploy", "supervise"]
    # A run that supervises stays active, and `stop` has to run beside it.
    assert dag.max_active_runs >= 16
    assert dag.catchup is False
    assert all(task.execution_timeout is None for task in dag.tasks)
    assert "user_events" in (dag.doc_md or "")


def test_the_action_is_a_choice(monkeypatch: pytest.MonkeyPatch, streams: Path) -> None:
    action = load(monkeypatch, streams).dags[f"stream_{STREAM}"].params.get_param("action")
    assert action.value == "run"
    assert action.schema["enum"] == ["run", "restart", "stop", "suspend", "upgrade", "resume", "remove"]
    assert action.schema["title"]
    for value in action.schema["enum"]:
        assert action.resolve(value) == value
        assert value in action.schema["values_display"][value]
    with pytest.raises(ParamValidationError, match="is not one of"):
        action.resolve("explode")


def test_a_bad_yaml_is_an_import_error_and_leaves_the_other_streams_working(
    monkeypatch: pytest.MonkeyPatch, streams: Path
) -> None:
    (streams / "broken.yaml").write_text("stream: broken\nowner: me\n")
    bag = load(monkeypatch, streams)
    (file,) = bag.import_errors
    assert file.endswith("streams_yaml_check.py")
    assert "broken.yaml" in bag.import_errors[file]
    assert "Add `topic`" not in bag.import_errors[file]
    assert "Add `source` at the top level of the file." in bag.import_errors[file]
    assert [task.task_id for task in bag.dags[f"stream_{STREAM}"].tasks] == [
        "upgrade",
        "remove",
        "deploy",
        "supervise",
    ]
    # The stream keeps its DAG, so that its history and a sleeping supervisor are not lost.
    broken = bag.dags["stream_broken"]
    assert [task.task_id for task in broken.tasks] == ["upgrade", "remove", "deploy", "supervise"]
    assert "Add `source` at the top level of the file." in (broken.doc_md or "")
    assert "invalid-yaml" in broken.tags
