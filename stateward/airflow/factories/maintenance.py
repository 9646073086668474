"""The DAG that maintains all tables while streams write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from airflow.sdk import DAG, Param

from stateward.airflow.factories.timetable import at_times
from stateward.airflow.operators.maintain_table import (
    ListTablesOperator,
    MaintainTableOperator,
    ReportTablesOperator,
)
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec

_DOC = """### Maintenance of tables

Each hour, table by table: compacts small files of closed partitions, and removes files and log entries that
no retained version needs. What time travel, savepoints and validations need stays;
`include/maintenance.yaml` says how long. Streams keep running.

The log of *report* lists small files, sizes and the oldest version kept of each table; the Delta table
`table_maintenance` keeps every run. A *dry run* changes nothing. More in docs/maintenance.md.
"""


def maintenance_dags(started: Sequence[StreamSpec]) -> dict[str, DAG]:
    """Build the DAG `maintenance`, if any stream was started."""
    if not started:
        return {}
    with DAG(
        dag_id=Settings().dag_id("maintenance"),
        description="Compact, vacuum and clean the log of all tables.",
        doc_md=_DOC,
        schedule=at_times("17 * * * *"),
        catchup=False,
        max_active_runs=1,
        params={
            "dry_run": Param(
                default=False,
                type="boolean",
                title="Dry run",
                description="Report what would happen, and change nothing.",
            ),
            "tables": Param(
                None,
                type=["null", "array"],
                items={"type": "string"},
                title="Tables",
                description="Names, one per line. Empty: all tables.",
            ),
        },
        tags=["stateward", "maintenance"],
        default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    ) as dag:
        tables = ListTablesOperator(task_id="tables")
        maintained = MaintainTableOperator.partial(
            task_id="maintain",
            map_index_template="{{ table }}",
            # Leaves room for the streams.
            max_active_tis_per_dagrun=1,
            execution_timeout=timedelta(minutes=45),
        ).expand(table=tables.output)
        # Reports the other tables when one cannot be read.
        ReportTablesOperator(task_id="report", rows=maintained.output, trigger_rule="none_skipped")
    return {dag.dag_id: dag}
