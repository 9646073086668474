"""The tasks of the DAG `maintenance`: list the tables, maintain each, report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from stateward.airflow.compat import AirflowSkipException
from stateward.contract.names import TABLE_MAINTENANCE
from stateward.project.layout import Layout
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class ListTablesOperator(BaseOperator):
    """Returns the names of the tables to maintain: those of the form's `tables`, or all."""

    def execute(self, context: Context) -> list[str]:
        """List the tables.

        Raises:
            UnknownTableError: The form names a table that does not exist.
            PolicyError: The file with the policies cannot be used.
            AirflowSkipException: There are no tables yet.
        """
        from stateward.maintenance.tasks import tasks

        asked = context["params"].get("tables") or []
        names = [task.table for task in tasks(Settings(), asked, datetime.now(UTC))]
        if not names:
            raise AirflowSkipException("there are no tables yet: they appear with the first stream")
        return names


class MaintainTableOperator(BaseOperator):
    """Maintains one table, and appends a row to `table_maintenance`. Never touches a stream.

    Args:
        table: Its name.
    """

    template_fields: Sequence[str] = ("table",)

    def __init__(self, *, table: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table

    def execute(self, context: Context) -> list[str]:
        """Run every step, and return the table's row of the report."""
        from stateward.maintenance import record, summary
        from stateward.maintenance.maintain import maintain
        from stateward.maintenance.tasks import tasks

        # The name under which the UI lists this one of the mapped tasks.
        context["table"] = self.table  # type: ignore[typeddict-unknown-key]
        settings, now = Settings(), datetime.now(UTC)
        dry_run = bool(context["params"].get("dry_run"))
        [task] = tasks(settings, [self.table], now)
        done = maintain(
            task, now=now, dry_run=dry_run, report=lambda step, what: self.log.info("%s: %s", step, what)
        )
        if not dry_run:
            ti = context["ti"]
            record.append(Layout.of(settings).table_uri(TABLE_MAINTENANCE), done, f"{ti.dag_id}/{ti.run_id}")
        return list(summary.cells(done))


class ReportTablesOperator(BaseOperator):
    """Logs small files and sizes of all maintained tables.

    Args:
        rows: The row of each table.
    """

    template_fields: Sequence[str] = ("rows",)

    def __init__(self, *, rows: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rows: Iterable[Sequence[str]] = rows

    def execute(self, context: Context) -> None:
        """Log the report."""
        from stateward.maintenance.summary import lines

        for line in lines([tuple(row) for row in self.rows]):
            self.log.info("%s", line)
