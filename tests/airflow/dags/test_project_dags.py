"""The DAG file of a project: two lines, which DAGs it makes, and with which ids."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from stateward.airflow.triggers.stream_progress import StreamProgressTrigger
from stateward.airflow.triggers.stream_turn import StreamDrainedTrigger
from stateward.project.layout import Layout
from tests.support.control.started import mark_started
from tests.support.small_spec import small_spec

pytestmark = pytest.mark.airflow

OPERATIONS = {"state_operations", "state_inspection"}
LINES = "from stateward.airflow import dags\n\nglobals().update(dags({}))\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the streams `small` and `other`; nothing else names it."""
    # Set first, so that what a DAG file sets is undone too.
    for name in ("STATEWARD_PROJECT", "STATEWARD_DAG_PREFIX", "STATEWARD_HOME", "STATEWARD_STREAMS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    folder = tmp_path / "project"
    streams = folder / "include" / "streams"
    streams.mkdir(parents=True)
    small_spec(streams, quality={"tables": ["small_rows"]}, tables=["small_rows"])
    text = (streams / "small.yaml").read_text()
    (streams / "other.yaml").write_text(text.replace("stream: small", "stream: other"))
    (folder / "dags").mkdir()
    return folder


def load(project: Path, arguments: str = '".."') -> dict[str, DAG]:
    file = project / "dags" / "all.py"
    file.write_text(LINES.format(arguments))
    bag = DagBag(str(project / "none"))
    bag.process_file(str(file), only_if_updated=False)
    if bag.import_errors:
        raise AssertionError(bag.import_errors[str(file)])
    return dict(bag.dags)


def start(project: Path, *streams: str) -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("STATEWARD_PROJECT", str(project))
        mark_started(*streams)


def test_a_stream_that_was_never_started_has_one_dag_without_a_schedule(project: Path) -> None:
    dags = load(project)
    assert set(dags) == {"stream_small", "stream_other", *OPERATIONS}
    assert [dag.dag_id for dag in dags.values() if dag.schedule is not None] == []


def test_its_other_dags_come_when_it_was_started_once(project: Path) -> None:
    start(project, "small")
    found = set(load(project)) - {"stream_small", "stream_other", *OPERATIONS}
    assert found == {"quality_small", "quality_shared", "reconcile_small", "state_small", "maintenance"}


def test_airflows_own_setting_says_whether_a_new_dag_is_paused(project: Path) -> None:
    start(project, "small")
    dags = load(project)
    unpaused = {name for name, dag in dags.items() if dag.is_paused_upon_creation is False}
    assert unpaused == OPERATIONS
    assert all(dag.is_paused_upon_creation is None for name, dag in dags.items() if name not in unpaused)


def test_every_id_takes_the_prefix(project: Path) -> None:
    start(project, "small")
    bare = set(load(project))
    assert set(load(project, '"..", prefix="lake."')) == {f"lake.{name}" for name in bare}
    assert os.environ["STATEWARD_DAG_PREFIX"] == "lake."


def test_the_prefix_may_be_a_setting(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEWARD_DAG_PREFIX", "lake_")
    dags = load(project)
    assert set(dags) == {f"lake_{name}" for name in ("stream_small", "stream_other", *OPERATIONS)}
    upgrade = dags["lake_stream_small"].get_task("upgrade")
    assert getattr(upgrade, "trigger_dag_id", None) == "lake_state_operations"


def test_the_folder_may_be_absolute_and_is_that_of_the_process(project: Path) -> None:
    load(project, repr(str(project)))
    assert os.environ["STATEWARD_PROJECT"] == str(project)
    assert Layout.of().home == project / "var"


def test_a_folder_that_is_no_project_is_refused(project: Path) -> None:
    with pytest.raises(
        AssertionError, match=r"expected a project, with the folder include/streams, in /none"
    ):
        load(project, '"/none"')


def test_settings_that_name_another_project_are_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWARD_PROJECT", "/another")
    with pytest.raises(AssertionError, match="An Airflow has one project"):
        load(project)


def test_a_folder_may_be_named_by_a_link(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = project.parent / "current"
    link.symlink_to(project)
    monkeypatch.setenv("STATEWARD_PROJECT", str(link))
    assert "stream_small" in load(project)
    assert os.environ["STATEWARD_PROJECT"] == str(link)


@pytest.mark.parametrize(
    ("dag_id", "made"),
    [
        ("p_stream_small", {"stream_small", "stream_other"}),
        ("p_state_operations", OPERATIONS | {"state_small"}),
        ("p_quality_shared", {"quality_small", "quality_shared"}),
        ("p_maintenance", {"maintenance"}),
    ],
)
def test_a_task_parses_only_the_dags_of_its_kind(
    project: Path, monkeypatch: pytest.MonkeyPatch, dag_id: str, made: set[str]
) -> None:
    start(project, "small")
    # As the process of a task has them.
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "any")
    assert set(load(project, '"..", prefix="p_"')) == {f"p_{name}" for name in made}


def test_a_trigger_watches_the_project_of_its_task(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(project)
    path, arguments = StreamProgressTrigger("small", "d/r", {}).serialize()
    drained = StreamDrainedTrigger("small", {}).serialize()[1]
    # The triggerer reads no DAG file.
    monkeypatch.delenv("STATEWARD_PROJECT")
    assert (arguments["project"], drained["project"]) == (str(project), str(project))
    again = StreamProgressTrigger(**arguments)
    assert again.serialize() == (path, arguments)
