"""A driver rejects topics that its stream would not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_jobs.event_windows.declaration import JOB as NATIVE
from spark_jobs.raw_events.declaration import JOB as LANDING
from spark_jobs.user_sessions.declaration import JOB as KEYED
from stateward.contract.process_output import DriverExit
from stateward.driver import run
from stateward.runtime.api.any_job import AnyJob
from stateward.runtime.api.config import ConfigError, parse_config
from stateward.runtime.driver.entry import require_topics
from tests.unit.runtime.telemetry.test_documents import CONFIG

SEVERAL = {name: value for name, value in CONFIG.items() if name != "topic"} | {"topics": ["a", "b"]}


@pytest.mark.parametrize("job", [KEYED, NATIVE])
def test_a_stream_that_reads_one_topic_refuses_several(job: AnyJob) -> None:
    with pytest.raises(
        ConfigError, match=r"stream user_sessions: expected one topic, found a, b: .*`source\.topic`"
    ):
        require_topics(job, parse_config(SEVERAL, "here"))
    require_topics(job, parse_config({**SEVERAL, "topics": ["a"]}, "here"))


def test_a_stream_that_lands_records_reads_them_all() -> None:
    require_topics(LANDING, parse_config(SEVERAL, "here"))


def test_the_driver_says_so_before_it_takes_the_lease(tmp_path: Path) -> None:
    status, lease = tmp_path / "status.json", tmp_path / "lease"
    document = {**SEVERAL, "status_uri": f"file://{status}"}
    document["lease"] = {**CONFIG["lease"], "uri": f"file://{lease}"}
    (tmp_path / "config.json").write_text(json.dumps(document))

    assert run([f"file://{tmp_path}/config.json"]) == DriverExit.FAILED

    written = json.loads(status.read_text())
    assert (written["state"], written["cause"]) == ("failed", {"kind": "configuration", "lasting": True})
    assert "expected one topic, found a, b" in written["message"]
    assert not lease.exists()
