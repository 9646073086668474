"""A DAG for each stream with a `state_export` section: writes its state to a Delta table on schedule."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG

from stateward.airflow.care.context import fixed_parameters
from stateward.airflow.factories.deployment_guard import was_deployed
from stateward.airflow.factories.state_care import AGAIN, state_dag
from stateward.airflow.operators.state_operation import StateOperationOperator
from stateward.project.spec import StreamSpec
from stateward.project.spec_state import StateExport

_DOC = """### Exports of the state of {stream}

Configured in the section `state_export` of `include/streams/{stream}.yaml`. At {schedule} (UTC) the state as
of the newest batch is written to the table `state_exports`. The stream keeps running. More in
docs/state-export.md.
"""


def _export_dag(spec: StreamSpec, section: StateExport) -> DAG:
    stream = spec.stream
    with state_dag(
        spec,
        f"export_{stream}",
        section.schedule,
        description=f"Write the state of {stream} to the table state_exports on schedule",
        doc_md=_DOC.format(stream=stream, schedule=section.schedule),
    ) as dag:
        deployed = ShortCircuitOperator(task_id="deployed", python_callable=was_deployed, op_args=[stream])
        export = StateOperationOperator(
            task_id="export",
            asks=fixed_parameters(stream, "export"),
            verb="export",
            given={"keep": section.keep},
            **AGAIN,
        )
        deployed >> export
    return dag


def state_export_dags(started: Sequence[StreamSpec]) -> dict[str, DAG]:
    """Build the DAGs of started streams whose YAML has the section."""
    dags = [_export_dag(spec, spec.state_export) for spec in started if spec.state_export is not None]
    return {dag.dag_id: dag for dag in dags}
