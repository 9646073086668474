"""Beside a `dag.test()` in another process: what a scheduler and a person do there. A program.

    python -m tests.support.control.airflow_runs HOME STREAM [Approve|Reject]

It carries out runs that were triggered, with stand-ins for their jobs, and answers a question under
*Required Actions*. It runs until it is ended.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import select

from stateward.control.jobs import batch_job
from stateward.control.jobs.verbs import CHANGING_DAG
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from tests.support.control.recorded_jobs import Jobs, spark_command


def carry_out_triggered(dags: Path = CHECKOUT / "dags" / "streams.py") -> None:
    """Carry out a run of `state_operations` that waits for its scheduler.

    Args:
        dags: The file with the DAGs of the project.
    """
    with create_session() as session:
        found = session.scalar(
            select(DagRun).where(DagRun.dag_id == CHANGING_DAG, DagRun.state == DagRunState.QUEUED)
        )
        if found is None:
            return
        run_id, at, conf = found.run_id, found.logical_date, found.conf
    # dag.test() replaces the run of the same time by one of its own; so it has the same id.
    vars_of_run: Any = DagRun
    vars_of_run.generate_run_id = staticmethod(lambda **given: run_id)
    dag = DagBag(str(dags)).dags[CHANGING_DAG]
    dag.test(logical_date=at, run_conf=conf)


def answer(option: str) -> None:
    """Answer a question by the API of the server, as the page does."""
    with create_session() as session:
        asked = session.scalar(select(HITLDetail).where(HITLDetail.responded_at.is_(None)))
        if asked is None:
            return
        one = asked.task_instance
        path = f"/api/v2/dags/{one.dag_id}/dagRuns/{one.run_id}/taskInstances/{one.task_id}/-1/hitlDetails"
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    app = create_app(apps="core")
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role="admin"))
    response = TestClient(app).patch(
        path,
        json={"chosen_options": [option], "params_input": {}},
        headers={"Authorization": f"Bearer {token}"},
    )
    print(response.status_code, response.text, flush=True)  # noqa: T201


def main(home: str, stream: str, option: str = "") -> None:
    """Do both until the process is ended."""
    jobs = Jobs(Layout.of(Settings(home=Path(home))), stream)
    vars(batch_job).update(run=jobs.run, spark_command=spark_command)
    while True:
        carry_out_triggered()
        if option:
            answer(option)
        threading.Event().wait(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
