"""One DAG per stream that has a quality section: validate its table after changes, and on a schedule."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable, Param

from include.layout import Layout
from include.operators.validate_table import ValidateTableOperator
from include.settings import Settings
from include.spec import Quality, StreamSpec, load_specs
from include.triggers.table_update import TableUpdateTrigger

_VERSION = Param(
    None,
    type=["null", "integer"],
    minimum=0,
    title="Version",
    description="Delta version to validate. Empty: the one that changed, or the latest.",
)


def table_asset(stream: str, quality: Quality) -> Asset:
    """Return the stream's table as an asset that watches its own versions."""
    layout = Layout.of()
    trigger = TableUpdateTrigger(
        table_uri=layout.table_uri(quality.table),
        results_uri=layout.table_uri("quality_results"),
        stream=stream,
        table=quality.table,
        settle_s=quality.settle.total_seconds(),
        max_staleness_s=quality.max_staleness.total_seconds(),
    )
    return Asset(
        name=f"{stream}.{quality.table}",
        uri=layout.table_uri(quality.table),
        watchers=[AssetWatcher(name=f"{stream}.{quality.table} versions", trigger=trigger)],
    )


def quality_dag(spec: StreamSpec, quality: Quality) -> DAG:
    """Return the DAG that validates the table of one stream."""
    asset = table_asset(spec.stream, quality)
    schedule = (
        AssetOrTimeSchedule(timetable=CronTriggerTimetable(quality.schedule, timezone="UTC"), assets=[asset])
        if quality.schedule
        else [asset]
    )
    with DAG(
        dag_id=f"quality_{spec.stream}",
        description=f"Validates {quality.table} of {spec.stream} against the suite {quality.suite}.",
        schedule=schedule,
        # No start_date: with one, the last missed time of the schedule would run as soon as the DAG is known.
        catchup=False,
        max_active_runs=1,
        # A paused DAG has no asset watcher.
        is_paused_upon_creation=False,
        params={"version": _VERSION},
        tags=["stateward", "quality", spec.stream],
        default_args={"owner": spec.owner},
    ) as dag:
        ValidateTableOperator(
            task_id="validate",
            stream=spec.stream,
            table=quality.table,
            suite=quality.suite,
            conn_id=spec.spark.conn_id,
            retries=2,
            retry_delay=timedelta(seconds=30),
            execution_timeout=timedelta(minutes=30),
        )
    return dag


for _spec in load_specs(Settings().streams)[0]:
    if _spec.quality:
        globals()[f"quality_{_spec.stream}"] = quality_dag(_spec, _spec.quality)
