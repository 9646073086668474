"""`split` without Spark: rules that divide the keys, refusals, and a crashed split."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.device_lifecycle.declaration import JOB
from stateward.contract.process_identity import driver_process
from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.api.key_step import KeyStep
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import Generation, Pending
from stateward.runtime.lease.lease import Lease, utc_now
from stateward.state import job
from stateward.state.compatibility.descriptor import describe, write_descriptor
from stateward.state.compatibility.findings import Descriptor
from stateward.state.compatibility.split_findings import split_findings
from stateward.state.operation.context import Context
from stateward.state.operation.journal import Journal
from tests.support.state.installed_stream import (
    NOW,
    STREAM,
    Installed,
    Stage,
)
from tests.unit.state.compatibility.test_descriptor import config_of
from tests.unit.state.operation.test_operation_pages import operation, perform

OTHER = "user_sessions"


def is_large(key: str) -> bool:
    return len(key) > 5


def is_small(key: str) -> bool:
    return len(key) < 3


LARGE = KeyFilter("large devices", is_large)
SMALL = KeyFilter("small devices", is_small)
STEP = KeyStep(1, "large devices have a stream of their own")
STAYS = replace(JOB, only=(LARGE.others(),), key_version=2, key_steps=(STEP,))
GOES = replace(
    STAYS,
    only=(LARGE,),
    outputs=tuple(
        replace(one, table=replace(one.table, name=f"large_{one.table.name}")) for one in JOB.outputs
    ),
)


def described(declared: StreamJob, folder: Path, **changes: Any) -> Descriptor:
    return describe(declared, config_of(STREAM, folder, **changes))


def test_one_rule_for_both_divides_the_keys(tmp_path: Path) -> None:
    found, stays, goes = (described(one, tmp_path) for one in (JOB, STAYS, GOES))
    assert list(split_findings(found, stays, goes)) == []
    # And a second split of the rest.
    third = KeyStep(2, "small devices, too")
    again: dict[str, Any] = {"key_version": 3, "key_steps": (STEP, third)}
    rest = described(replace(STAYS, only=(*STAYS.only, SMALL.others()), **again), tmp_path)
    small = described(replace(GOES, only=(*STAYS.only, SMALL), **again), tmp_path)
    assert list(split_findings(stays, rest, small)) == []
    assert list(split_findings(found, rest, small)), "two rules at once leave keys to neither"


@pytest.mark.parametrize(
    ("stays", "goes", "words"),
    [
        ({"only": ()}, {}, "'every key' where the stream had 'every key'"),
        ({}, {"only": ()}, "'every key' where the stream had 'every key'"),
        ({}, {"only": (LARGE.others(),)}, "'all but large devices' as the keys of both"),
        ({}, {"only": (SMALL,)}, "different rules"),
        ({"key_version": 1}, {"key_version": 1}, r"raise key_version to 2 and declare KeyStep\(1"),
        ({}, {"outputs": JOB.outputs}, "as a table of both"),
        ({}, {"state_version": 2}, "state.version that differs"),
        ({}, {"key_of": str}, "key.rule that differs"),
    ],
)
def test_what_would_lose_or_duplicate_a_key_is_reported(
    tmp_path: Path, stays: dict[str, Any], goes: dict[str, Any], words: str
) -> None:
    jobs = JOB, replace(STAYS, **stays), replace(GOES, **goes)
    found = " | ".join(split_findings(*(described(one, tmp_path) for one in jobs)))
    assert re.search(words, found), found


@pytest.mark.parametrize(
    "changes", [{"clock": "processing"}, {"allowed_lateness_ms": 7}, {"emission": "eager"}, {"topic": "t"}]
)
def test_streams_with_different_settings_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    found, stays = described(JOB, tmp_path), described(STAYS, tmp_path)
    [problem] = split_findings(found, stays, described(GOES, tmp_path, **changes))
    assert "that differs between both" in problem


@pytest.fixture
def installed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Installed:
    made = stage.fresh()
    monkeypatch.setenv("STATEWARD_HOME", str(made.folder))
    monkeypatch.setattr(job, "_session", lambda context: pytest.fail("nothing here needs Spark"))
    write_descriptor(made.generation.uri, describe(JOB, made.config))
    return made


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def declare(stays: StreamJob = STAYS, goes: StreamJob = GOES) -> None:
        jobs = {STREAM: stays, OTHER: goes}
        monkeypatch.setattr(Context, "job_of", lambda context, stream: jobs.get(stream, GOES))

    declare()
    return declare


def other(installed: Installed) -> Generation:
    return generations.current(f"file://{installed.folder}/data/checkpoints/{OTHER}")


def test_streams_that_do_not_divide_the_keys_are_refused(
    installed: Installed, declared: Callable[..., None]
) -> None:
    # The other stream reads another topic here.
    code, result = perform(installed, "split", into=OTHER)
    assert (code, result["state"]) == (1, "refused")
    assert f"expected declarations of {STREAM} and {OTHER} that divide its keys" in result["message"]
    assert (installed.generation.number, other(installed).number) == (1, 1)


def test_a_migration_does_not_replace_a_split(installed: Installed, declared: Callable[..., None]) -> None:
    prefixed = KeyStep(1, "a key says what it is", key=lambda key: f"device-{key}")
    declared(replace(STAYS, key_steps=(prefixed,)))
    code, result = perform(installed, "migrate")
    assert (code, result["state"]) == (1, "refused")
    assert "which keys are the stream's: was every key, is all but large devices" in result["message"]
    assert "run `stateward state split`" in result["message"]


def begun(installed: Installed) -> None:
    """What a split leaves behind that crashes between its first and its last change."""
    asked = operation(installed, "split", into=OTHER)
    journal = Journal(f"{asked.folder_uri}/journal.json", utc_now)
    at = other(installed).following()
    following = installed.generation.following()
    journal.decide(
        {
            "generation": following.number,
            "folder": following.folder,
            "into": OTHER,
            "into_root": at.root,
            "into_generation": at.number,
            "into_folder": at.folder,
        }
    )
    generations.announce(installed.generation, Pending(asked.id, "split", journal.uri), NOW)


def test_a_crashed_split_must_be_finished_first(installed: Installed, declared: Callable[..., None]) -> None:
    begun(installed)
    for verb in ("savepoint", "restore", "migrate"):
        code, result = perform(installed, verb)
        assert (code, result["state"]) == (1, "refused")
        assert f"`stateward state split {STREAM}` again" in result["message"]
    _, result = perform(installed, "split", into="user_activity")
    assert f"`stateward state split {STREAM} --into {OTHER}`" in result["message"]
    code, result = perform(installed, "split", into=OTHER, dry_run=True)
    assert (code, result["data"], other(installed).number) == (0, {"changed": False}, 1)

    code, result = perform(installed, "split", into=OTHER)
    assert (code, result["data"]) == (0, {"changed": True, "generation": 2, "into_generation": 2})
    assert (installed.generation.number, other(installed).number) == (2, 2)
    assert installed.generation.pending is None


def test_a_crashed_split_is_not_finished_over_a_started_stream(
    installed: Installed, declared: Callable[..., None]
) -> None:
    begun(installed)
    uri = f"file://{installed.folder}/data/leases/{OTHER}"
    lease = Lease(uri, stream=OTHER, run_id="run-9", holder=driver_process(), ttl_ms=20_000)
    lease.acquire()
    code, result = perform(installed, "split", into=OTHER)
    assert (code, result["state"]) == (1, "refused")
    assert f"stream {OTHER}: the lease is held by run run-9" in result["message"]
    lease.release()
    installed.put(Path(other(installed).uri.removeprefix("file://")) / "offsets" / "0", "{}")
    code, result = perform(installed, "split", into=OTHER)
    assert f"stream {OTHER}: expected a stream without a checkpoint" in result["message"]
    assert (installed.generation.number, other(installed).number) == (1, 1)


def test_a_retry_after_the_last_change_reports_success(
    installed: Installed, declared: Callable[..., None]
) -> None:
    begun(installed)
    perform(installed, "split", into=OTHER)
    # That of the operation whose journal it is.
    [request] = installed.folder.glob("data/operations/*/20261122T034500Z-split/request.json")
    assert job.main([f"file://{request}"]) == 0
    assert (installed.generation.number, other(installed).number) == (2, 2)
