"""Runs of `state_<stream>`: what is looked at, asked and done; the jobs and the driver are stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stateward.contract.reading import as_json
from stateward.control.care.record import read_record
from stateward.control.jobs import batch_job
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.airflow.conftest import ROOT, STREAM, Platform
from tests.airflow.dags.test_stream_runs import running
from tests.support.control.recorded_jobs import Jobs, spark_command
from tests.support.full import ci_full, only_full
from tests.unit.control.care.test_policy import LOOK, MORE

pytestmark = pytest.mark.airflow

Beside = Callable[..., None]


@pytest.fixture
def jobs(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    made = Jobs(Layout.of(Settings(home=platform.home)), STREAM)
    monkeypatch.setattr(batch_job, "run", made.run)
    monkeypatch.setattr(batch_job, "spark_command", spark_command)
    platform.trigger("run")
    running(platform, starts=1)
    platform.run_here("stop")
    return made


@pytest.fixture
def beside(platform: Platform) -> Iterator[Beside]:
    """Starts the process that carries out triggered runs, and answers for a person."""
    started: list[subprocess.Popen[str]] = []

    def start(*answer: str) -> None:
        program = [sys.executable, "-m", "tests.support.control.airflow_runs", str(platform.home), STREAM]
        log = (platform.home / "beside.log").open("w")
        environment = {**os.environ, **platform.environment, "PYTHONPATH": str(ROOT)}
        started.append(
            subprocess.Popen(
                [*program, *answer],
                env=environment,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )

    yield start
    for one in started:
        one.kill()
        one.wait()


def care(platform: Platform, **sections: Any) -> dict[str, str]:
    """Run the DAG in this process; returns the states of its tasks."""
    from airflow.dag_processing.dagbag import DagBag

    file = Path(platform.environment["STATEWARD_STREAMS"], f"{STREAM}.yaml")
    with file.open("a") as text:
        text.writelines(f"\n{name}: {json.dumps(section)}\n" for name, section in sections.items())
    platform.store_dags()
    bag = DagBag(str(ROOT / "dags" / "streams.py"))
    assert bag.import_errors == {}
    run = bag.dags[f"state_{STREAM}"].test()
    return {task.task_id: str(task.state) for task in run.get_task_instances()}


def looked(jobs: Jobs, **changes: Any) -> None:
    """Let `advise` answer with a look that was taken this moment."""
    jobs.data["advise"] = {"look": as_json(replace(MORE, at=datetime.now(UTC), **changes))}


def states(success: str, skipped: str = "", failed: str = "") -> dict[str, str]:
    named = (("success", success), ("skipped", skipped), ("failed", failed))
    return {task: state for state, tasks in named for task in tasks.split()}


def requests(jobs: Jobs, verb: str) -> list[dict[str, Any]]:
    folder = Path(jobs.layout.operations_uri.removeprefix("file://")) / STREAM
    return [json.loads(file.read_text()) for file in sorted(folder.glob(f"*-{verb}/request.json"))]


def test_by_default_a_change_is_proposed_and_a_savepoint_is_made_verified_and_old_ones_go(
    platform: Platform, jobs: Jobs, beside: Beside
) -> None:
    looked(jobs)
    beside()
    found = care(platform)
    log = (platform.home / "beside.log").read_text()
    assert found == states("deployed advise dry_run savepoint verify prune report", "approve act"), log
    assert jobs.ran == ["advise", "repartition", "verify", "prune"]
    [tried] = requests(jobs, "repartition")
    assert (tried["dry_run"], tried["arguments"]) == (True, {"partitions": 4})
    assert requests(jobs, "verify")[0]["arguments"] == {"savepoint": "S1"}
    record = read_record(jobs.layout, STREAM)
    assert (len(record.looks), record.changes) == (1, ())
    [page] = Path(jobs.layout.operation_uri(STREAM, "").removeprefix("file://")).glob("*-care/index.html")
    text = page.read_text()
    for part in (
        "4 partitions in place of 2: proposed only",
        "The stream is stopped for about",
        "savepoint is done The stream is stopped for about 1 min 38 s",
    ):
        assert part in text


def test_what_a_person_refuses_changes_nothing(platform: Platform, jobs: Jobs, beside: Beside) -> None:
    looked(jobs)
    beside("Reject")
    found = care(platform, savepoints=None, state_care={"policy": "approve"})
    log = (platform.home / "beside.log").read_text()
    assert found == states("deployed advise dry_run approve report", "savepoint verify prune act"), log
    assert [one["dry_run"] for one in requests(jobs, "repartition")] == [True]
    [change] = read_record(jobs.layout, STREAM).changes
    assert (change.outcome, change.by, change.after) == ("refused", "ann", 4)


@ci_full
def test_what_a_person_approves_is_done_by_a_run_of_state_operations(
    platform: Platform, jobs: Jobs, beside: Beside
) -> None:
    looked(jobs)
    beside("Approve")
    found = care(platform, savepoints=None, state_care={"policy": "approve"})
    log = (platform.home / "beside.log").read_text()
    assert found == states("deployed advise dry_run approve act report", "savepoint verify prune"), log
    assert [one["dry_run"] for one in requests(jobs, "repartition")] == [True, False]
    [change] = read_record(jobs.layout, STREAM).changes
    assert (change.outcome, change.by) == ("done", "ann")


@ci_full
def test_auto_acts_on_advice_that_has_held_and_reports_it(
    platform: Platform, jobs: Jobs, beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = platform.home / "sent.jsonl"
    notifier = {
        "class": "stateward.airflow.notifiers.json_lines.JsonLinesNotifier",
        "kwargs": {"path": str(sent)},
    }
    (platform.home / "notifiers.yaml").write_text(json.dumps([notifier]))
    monkeypatch.setenv("STATEWARD_NOTIFIERS", str(platform.home / "notifiers.yaml"))
    beside()
    section = {"policy": "auto", "looks": 2}
    looked(jobs)
    found = care(platform, savepoints=None, state_care=section)
    assert (found["act"], found["report"]) == ("skipped", "success"), "one look is too few"
    looked(jobs)
    found = care(platform)
    log = (platform.home / "beside.log").read_text()
    assert (found["approve"], found["act"], found["report"]) == ("skipped", "success", "success"), log
    [change] = read_record(jobs.layout, STREAM).changes
    assert (change.kind, change.outcome, change.by) == ("repartition", "done", "")
    [message] = [json.loads(line) for line in sent.read_text().splitlines()]
    assert (message["event"], message["title"]) == (
        "acted",
        f"Done: {STREAM}: 4 partitions in place of 2",
    )
    # Not twice in a day, whatever is advised.
    looked(jobs, partitions=4, advised=8, advised_today=8)
    assert care(platform)["act"] == "skipped"


@ci_full
def test_a_state_that_cannot_be_measured_has_its_savepoint_and_fails_the_run(
    platform: Platform, jobs: Jobs, beside: Beside
) -> None:
    jobs.refusals["advise"] = "there is no state"
    beside()
    found = care(platform)
    waited = dict.fromkeys(("dry_run", "approve", "act"), "upstream_failed")
    assert found == states("deployed savepoint verify prune", failed="advise report") | waited
    assert read_record(jobs.layout, STREAM).looks == ()


@only_full
def test_a_stream_without_a_committed_batch_has_nothing_to_look_at_yet(
    platform: Platform, jobs: Jobs
) -> None:
    jobs.data["advise"] = {"look": None}
    assert care(platform) == states("deployed advise report", "dry_run savepoint verify prune approve act")
    [page] = Path(jobs.layout.operation_uri(STREAM, "").removeprefix("file://")).glob("*-care/index.html")
    assert "no batch has been committed yet, so there is nothing to look at" in page.read_text()


@ci_full
def test_a_state_that_is_as_it_should_be_is_left_alone(platform: Platform, jobs: Jobs) -> None:
    looked(jobs, advised=LOOK.advised, advised_today=LOOK.advised_today)
    found = care(platform, savepoints=None, state_care={"policy": "auto"})
    assert found == states("deployed advise report", "dry_run savepoint verify prune approve act")
