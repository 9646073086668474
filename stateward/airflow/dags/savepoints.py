"""A DAG for each stream with a savepoints section: makes savepoints on schedule, and removes old ones."""

from __future__ import annotations

from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG, CronTriggerTimetable

from stateward.airflow.dags.operation_tasks import operation_tasks
from stateward.airflow.operators.deployment_guard import was_deployed
from stateward.airflow.operators.state_operation import StateOperationOperator
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, load_specs
from stateward.project.spec_state import Savepoints

_DOC = """### Savepoints of {stream}

Configured in the section `savepoints` of `include/streams/{stream}.yaml`. At {schedule} (UTC) the stream is
drained, a savepoint is made, and the stream starts as it was before. Then old savepoints are removed: the
newest {keep} good ones stay, and all that are younger than {days} days. Every task is skipped while the
stream was never deployed. More in docs/state-operations.md.
"""
_WATCH_S = 180


def _savepoints_dag(spec: StreamSpec, savepoints: Savepoints) -> DAG:
    reason = f"scheduled, {savepoints.schedule}"
    asks = {"stream": spec.stream, "verb": "savepoint", "dry_run": False, "watch_s": _WATCH_S}
    with DAG(
        dag_id=f"savepoints_{spec.stream}",
        description=f"Make savepoints of {spec.stream} on schedule, and remove old ones",
        doc_md=_DOC.format(stream=spec.stream, **savepoints.model_dump()),
        schedule=CronTriggerTimetable(savepoints.schedule, timezone="UTC"),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=["stateward", "state"],
        default_args={"owner": spec.owner},
    ) as dag:
        deployed = ShortCircuitOperator(
            task_id="deployed", python_callable=was_deployed, op_args=[spec.stream]
        )
        first, outcome = operation_tasks({**asks, "savepoint_reason": reason})
        deployed >> first
        outcome >> StateOperationOperator(
            task_id="prune",
            asks=asks,
            verb="prune",
            given={"keep": savepoints.keep, "days": savepoints.days},
            retries=2,
        )
    return dag


def savepoints_dags() -> dict[str, DAG]:
    """Build the DAGs of all streams that have a savepoints section."""
    specs, _ = load_specs(Settings().streams)
    dags = [_savepoints_dag(spec, spec.savepoints) for spec in specs if spec.savepoints]
    return {dag.dag_id: dag for dag in dags}
