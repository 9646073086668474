"""Runs of the DAG of state operations: what is stopped and started around one; the driver is a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from stateward.airflow.factories import operation_tasks
from stateward.contract.storage import read_json
from stateward.control.jobs import batch_job
from stateward.control.reconcile.maintenance_hold import held_by, hold
from stateward.control.reconcile.observe import read_control
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.airflow.conftest import ROOT, STREAM, Platform
from tests.airflow.dags.test_stream_runs import running
from tests.support.control.recorded_jobs import Jobs, spark_command
from tests.support.full import ci_full
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.airflow

ALL = ("drain", "savepoint", "operate", "start", "watch", "outcome")
BACK = tuple(f"go_back.{task}" for task in ("drain", "restore", "start", "watch"))


@pytest.fixture
def jobs(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    made = Jobs(Layout.of(Settings(home=platform.home)), STREAM)
    monkeypatch.setattr(batch_job, "run", made.run)
    monkeypatch.setattr(batch_job, "spark_command", spark_command)
    return made


@pytest.fixture
def supervised(platform: Platform) -> Iterator[Platform]:
    """The stream runs, and a DAG run supervises it."""
    platform.trigger("run")
    running(platform, starts=1)
    yield platform
    platform.run_here("stop")


def operate(verb: str, **fields: Any) -> dict[str, str]:
    """Run the DAG in this process; returns the states of its tasks."""
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(str(ROOT / "dags" / "streams.py")).dags["state_operations"]
    conf = {"verb": verb, "stream": STREAM, "watch_s": 60, **fields}
    return {task.task_id: str(task.state) for task in dag.test(run_conf=conf).get_task_instances()}


def states(done: str, skipped: str = "", failed: str = "") -> dict[str, str]:
    """The states of all tasks: those named, and the others of the way back skipped."""
    told = dict.fromkeys(("check", *BACK), "skipped")
    for names, state in ((done, "success"), (skipped, "skipped"), (failed, "failed")):
        told |= dict.fromkeys(names.split(), state)
    return told


@ci_full
def test_a_stream_that_was_given_up_is_started_by_the_operation_that_mends_it(
    platform: Platform, jobs: Jobs
) -> None:
    (platform.home / "fail").write_text("data_loss")
    assert platform.run_here("run")["deploy"] == "failed"
    jobs.acts["skip"] = (platform.home / "fail").unlink
    assert operate("skip") == states("drain operate start watch outcome", skipped="savepoint")
    running(platform, starts=2)
    platform.run_here("stop")


def test_only_what_needs_it_stops_a_supervised_stream_which_starts_again(
    supervised: Platform, jobs: Jobs
) -> None:
    for fields in ({"verb": "savepoints"}, {"verb": "savepoint", "dry_run": True}):
        assert operate(**fields) == states("operate outcome", skipped="drain savepoint start watch")
    assert len(supervised.starts()) == 1
    assert operate("savepoint", savepoint_reason="x") == states(
        "drain operate start watch outcome", skipped="savepoint"
    )
    assert jobs.ran == ["savepoints", "savepoint", "savepoint"]
    # Its supervisor has waited, and has not fought: one driver before, one after.
    running(supervised, starts=2)
    assert supervised.runs[0].poll() is None
    assert held_by(jobs.layout, STREAM) is None


def test_a_stopped_stream_stays_stopped_and_is_not_watched(platform: Platform, jobs: Jobs) -> None:
    assert operate("savepoint") == states("drain operate outcome", skipped="savepoint start watch")
    assert platform.starts() == []


@ci_full
def test_a_refusal_starts_the_stream_again_and_fails_the_run_with_its_words(
    supervised: Platform, jobs: Jobs, capfd: pytest.CaptureFixture[str]
) -> None:
    jobs.refusals["restore"] = "there is no savepoint to go back to"
    found = operate("restore")
    assert found == states("drain start", skipped="savepoint", failed="operate outcome") | {
        "watch": "upstream_failed"
    }
    running(supervised, starts=2)
    assert "operate: there is no savepoint to go back to" in capfd.readouterr().out

    # Another run holds it, and is gone for good: it is left to that until a person ends the hold.
    hold(jobs.layout, STREAM, "state_operations/another", "restore", datetime.now(UTC))
    found = operate("savepoint")
    assert (found["drain"], found["outcome"], jobs.ran) == ("failed", "failed", ["restore"])
    mark = held_by(jobs.layout, STREAM)
    assert mark is not None
    assert mark.by == "state_operations/another"
    supervised.trigger("restart")
    wait_until(lambda: held_by(jobs.layout, STREAM) is None, PATIENCE_S, "the hold has not ended")
    running(supervised, starts=3)


def test_a_stream_that_does_not_come_back_goes_back_and_runs(
    supervised: Platform, jobs: Jobs, capfd: pytest.CaptureFixture[str]
) -> None:
    jobs.acts["repartition"] = (supervised.home / "fail").touch
    jobs.acts["restore"] = (supervised.home / "fail").unlink
    found = operate("repartition", repartition_partitions=5)
    assert found == states(
        "drain savepoint operate start go_back.drain go_back.restore go_back.start go_back.watch",
        failed="watch outcome",
    )
    assert jobs.ran == ["savepoint", "repartition", "restore"]
    [restored] = jobs.results("restore")
    assert restored["arguments"] == {"savepoint": "S1"}
    status = read_json(jobs.layout.status_uri(STREAM))
    assert status is not None
    assert status["state"] == "running"
    told = capfd.readouterr().out
    assert "driver failed: asked to fail; restarted 2 times" in told
    assert "went back to the savepoint made before, and runs" in told


def test_a_try_after_a_worker_has_died_goes_on_and_does_not_repeat(
    platform: Platform, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try ends as with its worker: after the job has done its work, before the task has."""
    monkeypatch.setitem(operation_tasks._AGAIN, "retry_delay", timedelta(0))
    died: list[str] = []

    def die() -> None:
        if not died:
            died.append("once")
            raise OSError("the worker is gone")

    jobs.acts["savepoint"] = die
    found = operate("savepoint")
    assert found["operate"] == found["outcome"] == "success"
    assert (jobs.ran, died) == (["savepoint"], ["once"])


def deploy_another(platform: Platform) -> None:
    """Change what a driver is started with."""
    file = Path(platform.environment["STATEWARD_STREAMS"], f"{STREAM}.yaml")
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"trigger_interval": "7s"}))


def release(platform: Platform) -> str | None:
    control = read_control(Layout.of(Settings(home=platform.home)), STREAM)
    return control.release if control else None


def configured(platform: Platform) -> int:
    """The trigger interval that the newest driver was started with, in milliseconds."""
    document = read_json(Layout.of(Settings(home=platform.home)).config_uri(STREAM))
    assert document is not None
    return int(document["trigger_interval_ms"])


def test_an_upgrade_starts_what_is_deployed_and_watches_it_to_the_end(
    supervised: Platform, jobs: Jobs
) -> None:
    before = release(supervised)
    deploy_another(supervised)
    # What holds the stream for another reason brings in nothing new.
    operate("savepoint")
    running(supervised, starts=2)
    assert (release(supervised), configured(supervised)) == (before, 1000)

    told = operate("upgrade", watch_s=10)
    assert told == states("drain savepoint operate start watch outcome") | {"check": "success"}
    assert jobs.ran == ["savepoint", "verdict", "savepoint", "upgrade"]
    running(supervised, starts=3)
    assert (release(supervised) != before, configured(supervised)) == (True, 7000)


@ci_full
def test_an_upgrade_that_does_not_last_goes_back_to_what_ran(supervised: Platform, jobs: Jobs) -> None:
    before = release(supervised)
    deploy_another(supervised)
    jobs.acts["upgrade"] = (supervised.home / "fail").touch
    jobs.acts["restore"] = (supervised.home / "fail").unlink
    found = operate("upgrade", watch_s=600)
    assert found == states(
        "check drain savepoint operate start go_back.drain go_back.restore go_back.start go_back.watch",
        failed="watch outcome",
    )
    assert jobs.ran == ["verdict", "savepoint", "upgrade", "restore"]
    assert (release(supervised), configured(supervised)) == (before, 1000)


def test_what_may_not_run_on_the_state_is_not_started_and_nothing_stops(
    supervised: Platform, jobs: Jobs
) -> None:
    jobs.refusals["verdict"] = "the state needs a migration"
    deploy_another(supervised)
    found = operate("upgrade")
    assert (found["check"], found["outcome"], found["start"]) == ("failed", "failed", "skipped")
    assert jobs.ran == ["verdict"]
    assert len(supervised.starts()) == 1
