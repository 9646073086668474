"""A DAG for each stream that was started: looks at its state on schedule, and cares for it by policy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG

from stateward.airflow.care.act import ActCareOperator, ApproveCareOperator, SavepointCareOperator
from stateward.airflow.care.context import fixed_parameters
from stateward.airflow.care.look import AdviseCareOperator, DryRunCareOperator, VerifyCareOperator
from stateward.airflow.care.report import ReportCareOperator
from stateward.airflow.factories.deployment_guard import was_deployed
from stateward.airflow.factories.timetable import at_times
from stateward.airflow.operators.state_operation import StateOperationOperator
from stateward.control.care.schedule import schedule_of
from stateward.project.durations import format_duration
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec

_DOC = """### State care of {stream}

Configured in the sections `state_care` and `savepoints` of `include/streams/{stream}.yaml`. At {schedule}
(UTC) a window of {window} opens:

- *advise* measures the state and the load while the stream runs, and decides; *dry_run* tries what it
  proposes, and has a page
- *savepoint* makes a savepoint, {savepoints}; *verify* reads every file of it, and *prune* removes old ones
- *approve* waits for a person, under *Required Actions*, with the policy `approve`
- *act* makes the change by a run of `state_operations`, which proves it, and goes back by itself if the
  stream does not run
- *report* has the page of all of it

The policy is `{policy}`. After the window nothing is changed any more. More in docs/state-care.md.
"""
_TASKS = ("advise", "dry_run", "savepoint", "verify", "prune", "approve", "act")

# A retry is for a killed worker; errors that persist fail without one.
AGAIN: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=30)}
"""Arguments of tasks that look at a state on a schedule, or write a copy of it."""


def state_dag(spec: StreamSpec, dag_id: str, schedule: str, *, description: str, doc_md: str) -> DAG:
    """Build an empty DAG that works on the state of a stream on a schedule.

    Args:
        spec: The stream's YAML.
        dag_id: The DAG's id, without the prefix.
        schedule: When it runs, a cron expression in UTC. It does not run at once when it is first known.
        description: One line about it.
        doc_md: Its documentation, Markdown.
    """
    return DAG(
        dag_id=Settings().dag_id(dag_id),
        description=description,
        doc_md=doc_md,
        # Also because a stream that starts after this time would be stopped at once.
        schedule=at_times(schedule),
        catchup=False,
        max_active_runs=1,
        tags=["stateward", "state", spec.stream],
        default_args={"owner": spec.owner},
    )


def _care_dag(spec: StreamSpec) -> DAG:
    stream, schedule, section = spec.stream, schedule_of(spec), spec.state_care
    kept = spec.savepoints
    savepoints = "which stops the stream for that time" if kept else "but this YAML wants none"
    with state_dag(
        spec,
        f"state_{stream}",
        schedule,
        description=f"Look at the state of {stream}, make savepoints, and change what the policy lets happen",
        doc_md=_DOC.format(
            stream=stream,
            schedule=schedule,
            window=format_duration(section.window),
            policy=section.policy,
            savepoints=savepoints,
        ),
    ) as dag:
        deployed = ShortCircuitOperator(task_id="deployed", python_callable=was_deployed, op_args=[stream])
        advise = AdviseCareOperator(task_id="advise", stream=stream, **AGAIN)
        dry_run = DryRunCareOperator(task_id="dry_run", stream=stream, **AGAIN)
        # Made whatever was advised, and before a person may let the window pass.
        savepoint = SavepointCareOperator(task_id="savepoint", stream=stream, trigger_rule="all_done")
        verify = VerifyCareOperator(task_id="verify", stream=stream, **AGAIN)
        prune = StateOperationOperator(
            task_id="prune",
            asks=fixed_parameters(stream, "prune"),
            verb="prune",
            given={"keep": kept.keep, "days": kept.days} if kept else {},
            **AGAIN,
        )
        approve = ApproveCareOperator(task_id="approve", stream=stream, trigger_rule="none_failed")
        act = ActCareOperator(task_id="act", stream=stream, trigger_rule="none_failed")
        report = ReportCareOperator(
            task_id="report", stream=stream, reported=_TASKS, trigger_rule="all_done", **AGAIN
        )
        deployed >> advise >> dry_run >> savepoint >> verify >> prune >> approve >> act >> report
        dry_run >> approve
    return dag


def state_care_dags(started: Sequence[StreamSpec]) -> dict[str, DAG]:
    """Build the DAGs of started streams, unless a YAML wants neither care nor savepoints."""
    wanted = [spec for spec in started if spec.savepoints is not None or spec.state_care.policy != "off"]
    dags = [_care_dag(spec) for spec in wanted]
    return {dag.dag_id: dag for dag in dags}
