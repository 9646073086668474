"""A driver rejects topics that its stream would not read, and tables that it would not write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_jobs.event_windows.declaration import JOB as NATIVE
from spark_jobs.raw_events.declaration import JOB as LANDING
from spark_jobs.user_sessions.declaration import JOB as KEYED
from stateward.contract.process_output import DriverExit
from stateward.driver import run
from stateward.runtime.api.any_job import AnyJob, configured
from stateward.runtime.api.config import ConfigError, parse_config
from stateward.runtime.driver.entry import require_topics
from tests.support.streams.matches import JOB as MATCHES
from tests.unit.runtime.telemetry.test_documents import CONFIG

SEVERAL = {name: value for name, value in CONFIG.items() if name != "topic"} | {"topics": ["a", "b"]}


def test_a_stream_on_sparks_own_operators_refuses_several() -> None:
    with pytest.raises(
        ConfigError, match=r"stream user_sessions: expected one topic, found a, b\. .*`source\.topic`"
    ):
        require_topics(NATIVE, parse_config(SEVERAL, "here"))
    require_topics(NATIVE, parse_config({**SEVERAL, "topics": ["a"]}, "here"))


@pytest.mark.parametrize("job", [KEYED, LANDING])
def test_any_other_stream_reads_them_all(job: AnyJob) -> None:
    require_topics(job, parse_config(SEVERAL, "here"))


def test_a_topic_for_each_input_and_no_lateness_of_a_topic_without_a_watermark() -> None:
    config = parse_config(SEVERAL, "here")
    require_topics(MATCHES, config)
    with pytest.raises(ConfigError, match=r"expected payments, logins, found a\. .*`source\.topics`"):
        require_topics(MATCHES, parse_config({**SEVERAL, "topics": ["a"]}, "here"))
    late = parse_config({**SEVERAL, "lateness_by_topic_ms": {"a": 5}}, "here")
    require_topics(MATCHES, late)
    with pytest.raises(ConfigError, match=r"expected no `event_time\.by_topic`, found a: all topics"):
        require_topics(KEYED, late)


def test_the_driver_says_so_before_it_takes_the_lease(tmp_path: Path) -> None:
    status, lease = tmp_path / "status.json", tmp_path / "lease"
    tables = {name: uri for name, uri in CONFIG["tables"].items() if name != "sessions"}
    tables |= {"event_windows_sliding": "file:///s", "event_windows_tumbling": "file:///t"}
    document = {**SEVERAL, "stream": "event_windows", "tables": tables, "status_uri": f"file://{status}"}
    document["lease"] = {**CONFIG["lease"], "uri": f"file://{lease}"}
    (tmp_path / "config.json").write_text(json.dumps(document))

    assert run([f"file://{tmp_path}/config.json"]) == DriverExit.FAILED

    written = json.loads(status.read_text())
    assert (written["state"], written["cause"]) == ("failed", {"kind": "configuration", "lasting": True})
    assert "expected one topic, found a, b" in written["message"]
    assert not lease.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"sesions": "file:///t"},
            "expected tables to be some of sessions, .*found sesions: correct `tables`",
        ),
        ({"sessions": None}, "expected tables to name sessions, .*add it to `tables`"),
    ],
)
def test_a_table_that_is_misspelt_or_left_out_is_named(change: dict[str, str | None], said: str) -> None:
    tables = {name: uri for name, uri in {**CONFIG["tables"], **change}.items() if uri is not None}
    with pytest.raises(ConfigError, match=f"stream user_sessions: {said}"):
        configured(KEYED, parse_config({**CONFIG, "tables": tables}, "here"))


def test_an_optional_table_is_written_only_where_it_is_named() -> None:
    (optional,) = NATIVE.optional_outputs
    tables = dict.fromkeys([one.table.name for one in NATIVE.outputs], "file:///t")
    document = {**CONFIG, "stream": "event_windows"}
    without = configured(NATIVE, parse_config({**document, "tables": tables}, "here"))
    named = {**tables, optional.table.name: "file:///t"}
    with_it = configured(NATIVE, parse_config({**document, "tables": named}, "here"))
    assert without is NATIVE
    assert with_it.outputs == (*NATIVE.outputs, optional) and not with_it.optional_outputs
