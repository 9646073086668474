"""DAGs on a schedule: none runs at once for a time that has passed when it is first known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.timetables.base import TimeRestriction

from stateward.airflow.compat import CronTriggerTimetable
from stateward.airflow.factories.maintenance import maintenance_dags
from stateward.airflow.factories.quality import quality_dags
from stateward.airflow.factories.reconciliation import reconciliation_dags
from stateward.airflow.factories.state_care import state_care_dags
from stateward.airflow.factories.state_exports import state_export_dags
from stateward.airflow.factories.timetable import at_times
from stateward.contract.storage import write_json
from stateward.control.reconcile.started_streams import started_specs
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.support.small_spec import small_spec

FACTORIES = (maintenance_dags, quality_dags, reconciliation_dags, state_care_dags, state_export_dags)


def test_a_time_that_has_just_passed_is_not_made_up_for() -> None:
    now = datetime.now(UTC)
    passed = now - timedelta(minutes=2)
    timetable = of_the_scheduler(at_times(f"{passed.minute} {passed.hour} * * *"))
    first = timetable.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(None, None, catchup=False)
    )
    assert first is not None
    assert first.run_after > now


def of_the_scheduler(timetable: CronTriggerTimetable) -> Any:
    try:
        from airflow.serialization.encoders import coerce_to_core_timetable
    except ImportError:  # with Airflow 3.1 it is the one of DAGs
        return timetable
    return coerce_to_core_timetable(timetable)


def test_every_dag_on_a_schedule_waits_for_its_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    monkeypatch.setenv("STATEWARD_STREAMS", str(tmp_path))
    small_spec(
        tmp_path,
        quality={"tables": ["rows"], "schedule": "0 6 * * *"},
        reconciliation={"schedule": "0 6 * * *"},
        state_export={"schedule": "0 6 * * *"},
    )
    write_json(Layout.of().control_uri("small"), {"stream": "small"})
    specs = started_specs(Settings())
    dags: list[DAG] = list(chain.from_iterable(factory(specs).values() for factory in FACTORIES))
    crons = {dag.dag_id: cron for dag in dags if (cron := cron_of(dag)) is not None}
    assert len(crons) >= len(FACTORIES), crons.keys()
    assert {name: run_immediately(cron) for name, cron in crons.items()} == dict.fromkeys(crons, timedelta(0))


def run_immediately(cron: Any) -> timedelta:
    found: timedelta = cron.run_immediately if hasattr(cron, "run_immediately") else cron._run_immediately
    return found


def cron_of(dag: DAG) -> CronTriggerTimetable | None:
    """The cron of a DAG's schedule, beside its assets if it has some."""
    timetable: Any = dag.timetable
    timetable = getattr(timetable, "timetable", timetable)
    return timetable if isinstance(timetable, CronTriggerTimetable) else None
