"""The task that supervises, on its second try: what it could not see in between is no silence."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from airflow.sdk.exceptions import TaskDeferred

from stateward.airflow.operators.supervise_stream import SuperviseStreamOperator
from stateward.contract.process_identity import host_identity, started_at
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Launch
from stateward.project.layout import Layout
from tests.airflow.conftest import STREAM

pytestmark = pytest.mark.airflow


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[psutil.Popen]:
    """A live process that the documents call the stream's driver, and whose last status is a minute old."""
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    layout, then = Layout.of(), datetime.now(UTC) - timedelta(minutes=1)
    process = psutil.Popen(["sleep", "60"])
    launched = Launch("r1", then, host_identity(), "/l", process.pid, started_at(process.pid))
    control = Control(STREAM, "running", "r1", then, "me", "why", launched)
    write_json(layout.control_uri(STREAM), as_json(control))
    times = {"started_at": then.isoformat(), "updated_at": then.isoformat()}
    document = {"stream": STREAM, "run_id": "r1", "state": "running", "batch_id": 1, **times}
    write_json(layout.status_uri(STREAM), document)
    yield process
    process.kill()
    process.wait()


def test_a_try_after_one_that_failed_does_not_take_the_driver_for_silent(driver: psutil.Popen) -> None:
    context: Any = {
        "params": {"action": "run"},
        "dag_run": SimpleNamespace(dag_id="stream_user_sessions", run_id="r"),
        "ti": SimpleNamespace(try_number=2),
    }
    with pytest.raises(TaskDeferred):
        SuperviseStreamOperator(task_id="supervise", stream=STREAM).execute(context)
    assert driver.is_running()
