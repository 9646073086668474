"""A DAG for each stream with a quality section: validates its tables after changes and on a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher, Param

from stateward.airflow.compat import AssetOrTimeSchedule
from stateward.airflow.factories.timetable import at_times
from stateward.airflow.operators.validate_table import ValidateTableOperator
from stateward.airflow.triggers.table_update import TableUpdateTrigger
from stateward.contract.names import QUALITY_VALIDATIONS, SHARED_TABLES
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import SHARED, StreamSpec
from stateward.project.spec_quality import Quality


def _params(tables: list[str]) -> dict[str, Param]:
    """Return the form of a run: a table and a range of its versions."""
    version: dict[str, Any] = {"type": ["null", "integer"], "minimum": 0}
    return {
        "table": Param(
            tables[0] if len(tables) == 1 else None,
            type=["null", "string"],
            enum=[None, *tables],
            title="Table",
            description="Empty: all tables, or those that changed.",
        ),
        "from_version": Param(
            None,
            **version,
            title="From version",
            description="First Delta version to validate. Empty: the one after the last validated version."
            " A range that was validated before is validated again as it was.",
        ),
        "to_version": Param(
            None, **version, title="To version", description="Last version to validate. Empty: the latest."
        ),
    }


def _table_asset(stream: str, table: str, quality: Quality) -> Asset:
    """Return the asset of a table, with a watcher of its versions."""
    layout = Layout.of()
    trigger = TableUpdateTrigger(
        table_uri=layout.table_uri(table),
        validations_uri=layout.table_uri(QUALITY_VALIDATIONS),
        stream=stream,
        table=table,
        settle_s=quality.settle.total_seconds(),
        max_staleness_s=quality.max_staleness.total_seconds(),
    )
    return Asset(
        name=f"{stream}.{table}",
        uri=layout.table_uri(table),
        watchers=[AssetWatcher(name=f"{stream}.{table} versions", trigger=trigger)],
    )


def _quality_dag(stream: str, tables: list[str], schedule: Any, *, owner: str, conn_id: str) -> DAG:
    """Return the DAG that validates tables, one after the other."""
    with DAG(
        dag_id=Settings().dag_id(f"quality_{stream}"),
        description=f"Validates {', '.join(tables)}.",
        schedule=schedule,
        # No start_date: with one, the last missed time of the schedule would run as soon as the DAG is known.
        catchup=False,
        max_active_runs=1,
        # Each task is a Spark job beside the streams.
        max_active_tasks=1,
        params=_params(tables),
        tags=["stateward", "quality", stream],
        default_args={"owner": owner},
    ) as dag:
        for number, table in enumerate(tables):
            later = tables[number + 1 :]
            ValidateTableOperator(
                task_id="validate" if len(tables) == 1 else f"validate_{table}",
                stream=stream,
                table=table,
                conn_id=conn_id,
                later=later,
                # In this order, because the job of the first task validates the tables of all.
                priority_weight=len(tables) - number,
                retries=2,
                retry_delay=timedelta(seconds=30),
                # That of a table, for each in the job and for one of another run that comes before or after.
                execution_timeout=timedelta(minutes=30) * (2 + len(later)),
            )
    return dag


def _stream_dag(spec: StreamSpec, quality: Quality) -> DAG:
    """Return the DAG that validates the tables of one stream."""
    assets = AssetAny(*(_table_asset(spec.stream, table, quality) for table in quality.tables))
    schedule = (
        AssetOrTimeSchedule(timetable=at_times(quality.schedule), assets=assets)
        if quality.schedule
        else assets
    )
    return _quality_dag(spec.stream, quality.tables, schedule, owner=spec.owner, conn_id=spec.spark.conn_id)


def quality_dags(started: Sequence[StreamSpec]) -> dict[str, DAG]:
    """Build the DAGs of started streams that have a quality section, and that of the shared tables."""
    if not started:
        return {}
    dags = [_stream_dag(spec, spec.quality) for spec in started if spec.quality]
    # The shared tables change with every batch of every stream: once a day is enough.
    daily = at_times("0 5 * * *")
    dags.append(_quality_dag(SHARED, list(SHARED_TABLES), daily, owner="stateward", conn_id="spark_default"))
    return {dag.dag_id: dag for dag in dags}
