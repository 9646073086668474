"""A run of `forget`: when it has ended, Airflow's database has no trace of the key."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stateward.airflow.erased_keys import erase_keys
from tests.support.traces.search import traces_in_database

pytestmark = pytest.mark.airflow

PERSON = "person-ann-42"


def test_no_table_has_the_key_after_the_run_and_the_rest_of_it_stays(metadata_database: Path) -> None:
    from airflow.listeners.listener import get_listener_manager
    from airflow.models.dagrun import DagRun
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    forgets = {"verb": "forget", "stream": "user_sessions", "forget_key": PERSON}
    explains = {"verb": "explain", "stream": "user_sessions", "explain_key": PERSON}
    runs = (("state_operations", "r1", forgets), ("state_inspection", "r2", explains))
    with create_session() as session:
        for dag_id, run_id, conf in runs:
            run = DagRun(dag_id=dag_id, run_id=run_id, run_type=DagRunType.MANUAL, conf=conf)
            run.run_after = datetime.now(UTC)
            session.add(run)
            extra = json.dumps({"conf": conf, "method": "POST"})
            session.add(Log(event="trigger_dag_run", dag_id=dag_id, extra=extra))
    places = {trace.place for trace in traces_in_database(metadata_database, PERSON)}
    assert places == {"dag_run.conf", "log.extra"}, "the search finds it before"

    with create_session() as session:
        [run] = session.query(DagRun).where(DagRun.run_id == "r1").all()
        assert erase_keys(run) == 4

    assert traces_in_database(metadata_database, PERSON) == []
    with create_session() as session:
        found = {run.run_id: run.conf for run in session.query(DagRun).where(DagRun.run_id.in_(("r1", "r2")))}
    assert found == {
        "r1": {"verb": "forget", "stream": "user_sessions"},
        "r2": {**explains, "explain_key": "forgotten"},
    }
    listeners = [str(one) for one in get_listener_manager().pm.get_plugins()]
    assert isinstance(listeners, list)
