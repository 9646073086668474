"""When the scheduled DAGs run."""

from __future__ import annotations

from datetime import timedelta

from stateward.airflow.compat import CronTriggerTimetable


def at_times(cron: str) -> CronTriggerTimetable:
    """Return the timetable of a cron expression in UTC, whose first run is the next one.

    With Airflow's default, False, a DAG that is first known within a tenth of its period after a time of the
    schedule, or within five minutes, runs at once for that time.
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta(0))
