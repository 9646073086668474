"""What `migrate` and `seed` say before they begin; none of it needs Spark."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.device_lifecycle.declaration import JOB
from stateward.runtime.api.key_step import KeyStep
from stateward.runtime.lease.lease import utc_now
from stateward.state import job
from stateward.state.compatibility.descriptor import describe, write_descriptor
from stateward.state.compatibility.source_text import function_text
from stateward.state.operation.context import Context
from stateward.state.operation.journal import Journal
from tests.support.state.installed_stream import Installed, Stage
from tests.unit.state.operation.test_operation_pages import operation, perform


@pytest.fixture
def installed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Installed:
    made = stage.fresh()
    monkeypatch.setenv("STATEWARD_HOME", str(made.folder))
    monkeypatch.setattr(job, "_session", lambda context: pytest.fail("nothing here needs Spark"))
    return made


def declared(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    monkeypatch.setattr(Context, "job", property(lambda context: replace(JOB, **changes)))


_NO_STATE_STEP = r"would still not fit this code after a migration: the version of the states"
PREFIXED = KeyStep(1, "a key says what it is", key=lambda key: f"device-{key}")


def test_a_state_that_is_as_the_code_wants_it_is_left_alone(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_descriptor(installed.generation.uri, describe(JOB, installed.config))
    for changes in ({}, {"key_version": 2, "key_steps": (PREFIXED._replace(key=None),)}):
        declared(monkeypatch, **changes)
        code, result = perform(installed, "migrate")
        assert (code, result["data"]) == (0, {"changed": False})
        assert result["lines"][0].endswith("of the code already. Nothing was changed.")
    assert installed.generation.number == 1


def test_a_try_after_one_that_has_migrated_and_died_says_what_was_changed(installed: Installed) -> None:
    """Else the run would not know that there is something to take back when the stream does not come back."""
    asked = operation(installed, "migrate")
    journal = Journal(f"{asked.folder_uri}/journal.json", utc_now)
    write_descriptor(installed.generation.uri, describe(JOB, installed.config))
    journal.decide({"generation": 2, "reasons": ["64 buckets become 12"]})
    assert job.main([asked.request_uri]) == 0
    assert (asked.result() or {})["data"] == {"changed": False}, "it died before its last act"
    journal.decide({"generation": installed.generation.number, "reasons": ["64 buckets become 12"]})
    assert job.main([asked.request_uri]) == 0
    result = asked.result() or {}
    assert result["data"] == {"changed": True, "generation": 1}
    assert "64 buckets become 12" in result["lines"][0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key_version": 2}, r"missing 1 -> 2 \(ways out: declare KeyStep\(1, \.\.\.\)"),
        ({"key_of": str}, r"the rule of the key: was the field device_id, is str; the rule changed"),
        (
            {"state_version": 2},
            _NO_STATE_STEP,
        ),
        (
            {"key_version": 2, "key_steps": (PREFIXED,), "state_version": 2},
            _NO_STATE_STEP,
        ),
    ],
)
def test_a_migration_without_a_step_is_refused_before_it_begins(
    installed: Installed, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    write_descriptor(installed.generation.uri, describe(JOB, installed.config))
    declared(monkeypatch, **changes)
    before = sorted(Path(installed.path).rglob("*"))
    for dry_run in (True, False):
        code, result = perform(installed, "migrate", dry_run=dry_run)
        assert (code, result["state"]) == (1, "refused")
        assert re.search(message, result["message"]), result["message"]
    assert sorted(Path(installed.path).rglob("*")) == before


def test_a_stream_that_has_a_checkpoint_is_not_seeded(installed: Installed) -> None:
    code, result = perform(installed, "seed", table="file:///totals", key="device_id")
    assert (code, result["state"]) == (1, "refused")
    assert "expected a stream without a checkpoint, found one in" in result["message"]


def documented(key: str) -> str:
    """Say what it is."""
    # A remark.
    return f"device-{key}"


def test_the_text_of_a_function_is_what_it_does() -> None:
    assert function_text(documented) == "def documented(key: str) -> str:\n    return f'device-{key}'"
    assert function_text(str) == "str"
