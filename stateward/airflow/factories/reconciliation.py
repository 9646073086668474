"""A DAG for each stream whose rows can be recomputed: recomputes them and compares its tables with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG, Param

from stateward.airflow.factories.deployment_guard import was_deployed
from stateward.airflow.factories.timetable import at_times
from stateward.airflow.operators.reconcile_stream import ReconcileStreamOperator
from stateward.control.jobs.backfill_request import why_not_replayable
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec

_DOC = """### Reconciliation of {stream}

Recomputes the rows of `{stream}` from `raw_events`, with the stream's own logic in batch, and compares them
with its tables row by row. Without a range in the form it compares the {days} whole day(s), UTC, before the
run.

- *success*: no row differs
- *failed*: rows differ, and only an error can be the reason; the message says how many of each table, and
  where to find them with their events
- *skipped*: there is nothing to compare yet, or the rows that differ may be right; the log says why

The stream and its tables are not touched. More in docs/reconciliation.md.
"""


def _time(name: str, empty: str) -> Param:
    return Param(
        None,
        type=["null", "string"],
        format="date-time",
        title=name.capitalize(),
        description=f"{empty} A time without a zone is UTC.",
    )


def _reconciliation_dag(spec: StreamSpec) -> DAG:
    section = spec.reconciliation
    with DAG(
        dag_id=Settings().dag_id(f"reconcile_{spec.stream}"),
        description=f"Compare the tables of {spec.stream} with rows recomputed from raw events",
        doc_md=_DOC.format(stream=spec.stream, days=section.days),
        schedule=at_times(section.schedule) if section.schedule else None,
        catchup=False,
        max_active_runs=1,
        params={
            "from": _time("from", f"Start of the range. Empty: {section.days} day(s) before its end."),
            "to": _time("to", "End of the range, exclusive. Empty: the last midnight (UTC)."),
        },
        tags=["stateward", "quality", spec.stream],
        default_args={"owner": spec.owner},
    ) as dag:
        deployed = ShortCircuitOperator(
            task_id="deployed", python_callable=was_deployed, op_args=[spec.stream]
        )
        deployed >> ReconcileStreamOperator(
            task_id="reconcile",
            stream=spec.stream,
            retries=2,
            retry_delay=timedelta(minutes=5),
            execution_timeout=timedelta(hours=2),
        )
    return dag


def reconciliation_dags(started: Sequence[StreamSpec]) -> dict[str, DAG]:
    """Build the DAGs of started streams whose rows can be recomputed."""
    dags = [_reconciliation_dag(spec) for spec in started if why_not_replayable(spec) is None]
    return {dag.dag_id: dag for dag in dags}
