"""What the control plane asks jobs for, across releases, and how jobs answer while they run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stateward.contract.process_output import Failure, Step, step_in
from stateward.contract.storage import write_json
from stateward.control.jobs.backfill_request import build_request
from stateward.control.jobs.batch_job import python_command
from stateward.control.jobs.operation_request import operations_of_run, prepare
from stateward.control.jobs.verbs import verb_of
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from stateward.recompute.request import BackfillError, parse_request
from stateward.state.errors import StateError
from stateward.state.operation.request import load_request

STREAM = "user_sessions"
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def recomputation(folder: Path) -> dict[str, Any]:
    settings = Settings(home=folder, data=f"file://{folder}/data")
    return build_request(load_spec(STREAM), settings, NOW.replace(day=30), NOW)


def test_a_recomputation_of_another_release_is_read(tmp_path: Path) -> None:
    document = recomputation(tmp_path)
    request = parse_request(document, "here")
    later = {**document, "of a later release": 1, "config": {**document["config"], "of a later release": 1}}
    assert parse_request(later, "here") == request
    optional = ("with_late", "compare", "record")
    earlier = {name: value for name, value in document.items() if name not in optional}
    assert parse_request(earlier, "here") == request


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "here: expected version 1, found 2: `stateward backfill` writes"),
        ({"from_ms": "1"}, "here: from_ms: expected int, found '1'"),
        ({"record": {"uri": "u"}}, r"here: record\.run_id: expected a value, found nothing"),
        ({"config": None}, "here: config: expected version 1, found nothing"),
    ],
)
def test_what_is_wrong_with_a_recomputation_is_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(BackfillError, match=message):
        parse_request({**recomputation(tmp_path), **change}, "here")
    with pytest.raises(BackfillError, match="expected version 1, found nothing"):
        parse_request(None, "here")


def test_an_operation_of_another_release_is_read(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    uri = prepare(verb_of("savepoint"), load_spec(STREAM), settings, {}, now=NOW).request_uri
    file, request = Path(uri.removeprefix("file://")), load_request(uri)
    document = json.loads(file.read_text())
    assert document["config"] == request.document, "what a savepoint keeps of it"
    assert request.measure_limits["largest_key"] == {"warn": 100, "critical": 1000}, "those of its YAML"
    optional = ("asked_by", "other", "operations_uri", "logs_uri", "personal_arguments", "seed_roots")
    added = (*optional, "failures", "measure_limits")
    earlier = {name: value for name, value in document.items() if name not in added}
    failures = {"count": 2, "since": "2026-01-30T12:00:00.000000Z"}
    file.write_text(json.dumps({**earlier, "of a later release": 1, "failures": failures}))
    found = load_request(uri)
    assert (found.operation, found.config, found.other) == (request.operation, request.config, None)
    assert found.failures is not None and found.failures.since == NOW.replace(day=30)
    file.write_text(json.dumps({**document, "version": 2}))
    with pytest.raises(StateError, match="expected version 1, found 2: `stateward state` writes"):
        load_request(uri)


def test_the_operations_of_a_run_are_in_the_order_in_which_they_were_begun(tmp_path: Path) -> None:
    settings, spec = Settings(home=tmp_path), load_spec(STREAM)
    begun = [
        prepare(verb_of(verb), spec, settings, {}, now=NOW, asked_by="run")
        for verb in ("savepoint", "repartition", "restore")
    ]
    prepare(verb_of("verify"), spec, settings, {}, now=NOW, asked_by="another")
    for second, one in enumerate(begun[:2]):
        write_json(f"{one.folder_uri}/result.json", {"began_at": f"2026-03-01T12:00:0{second}.000Z"})
    found = operations_of_run(STREAM, settings, "run")
    assert [one.verb.name for one in found] == ["savepoint", "repartition", "restore"]


def test_a_job_says_its_steps_among_other_lines() -> None:
    assert step_in(f"{Step('Spark', 'starting').line()}\n") == Step("Spark", "starting")
    assert step_in(Failure("first\nsecond").line()) == Failure("first second")
    for other in ("", "a line of Spark", "@step\tof three\tparts\there", "no @error\there"):
        assert step_in(other) is None


@pytest.mark.parametrize("job", ["state", "backfill"])
def test_a_command_names_a_script_that_is_there(job: str) -> None:
    script = Path(python_command(job, "file:///request.json", Settings())[1])
    assert script.is_file(), f"{script} was moved"


def test_the_request_to_forget_a_key_refers_to_it_in_a_file_of_its_own(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    spec, given = load_spec(STREAM), {"key": "person-ann-42"}
    operation = prepare(verb_of("forget"), spec, settings, given, now=NOW, asked_by="run")
    request = load_request(operation.request_uri)
    folder = tmp_path / "data" / "operations" / STREAM / operation.id
    assert "person-ann-42" not in (folder / "request.json").read_text()
    assert request.secret("key") == "person-ann-42"
    assert request.shown_arguments == {"key": "erased"}
    assert (folder / "key.secret.json").stat().st_mode & 0o077 == 0
    assert request.places is not None
    others = [root.rpartition("/")[2] for root, _ in request.places.others]
    assert {"raw_events", "action_counts", "event_windows"} <= set(others), "they read the same topic"
    assert STREAM not in others and "fraud_watch" not in others

    request.erase_secrets()
    assert request.secret("key") is None
    # A retry of a run that has ended asks again, and must not leave the key behind.
    (folder / "result.json").write_text(json.dumps({"state": "done"}))
    again = prepare(verb_of("forget"), spec, settings, given, now=NOW, asked_by="run")
    assert again.id == operation.id
    assert request.secret("key") is None
