"""The frame of state operations: verbs, request, lease, result, command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stateward.cli.main import app
from stateward.contract.process_identity import driver_process
from stateward.control.jobs import batch_job
from stateward.control.jobs.operation_request import Operation, prepare
from stateward.control.jobs.verb_field import VerbError
from stateward.control.jobs.verbs import VERBS, Verb, arguments_of, verb_of
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import Pending
from stateward.runtime.lease.lease import Lease, utc_now
from stateward.state import job, verbs
from stateward.state.operation.verb import Change, NextGeneration, ReadOnly
from stateward.state.pages.page import render
from stateward.state.savepoints.savepoint_catalog import stamp
from stateward.state.verbs import savepoint
from stateward.state.verbs.prune import old_generations
from stateward.state.verbs.verify import SavepointsVerb
from tests.support.state.installed_stream import (
    NOW,
    STREAM,
    FakeKafka,
    Installed,
    Stage,
)


@pytest.fixture
def installed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Installed:
    made = stage.fresh()
    monkeypatch.setenv("STATEWARD_HOME", str(made.folder))
    monkeypatch.setattr(job, "Broker", lambda bootstrap: FakeKafka())
    monkeypatch.setattr(savepoint, "code_version", dict)
    return made


def operation(installed: Installed, verb: str, *, dry_run: bool = False, **given: Any) -> Operation:
    settings = Settings(home=installed.folder, data=f"file://{installed.folder}/data")
    later = NOW + timedelta(hours=1)
    return prepare(verb_of(verb), load_spec(STREAM), settings, given, now=later, dry_run=dry_run)


def perform(installed: Installed, verb: str, **given: Any) -> tuple[int, dict[str, Any]]:
    asked = operation(installed, verb, **given)
    code = job.main([asked.request_uri])
    return code, asked.result() or {}


def lease(installed: Installed) -> Lease:
    uri = installed.config.lease.uri
    return Lease(uri, stream=STREAM, run_id="run-9", holder=driver_process(), ttl_ms=20_000)


def test_every_declared_verb_has_a_class_and_every_class_is_declared() -> None:
    assert verbs.CLASSES.keys() == VERBS.keys()


@pytest.mark.parametrize("declared", VERBS.values(), ids=list(VERBS))
def test_a_class_does_what_its_declaration_says(declared: Verb) -> None:
    """The table is the upper floor's: a form and a command offer what the class does."""
    found = verbs.verb_class(declared.name)
    assert found.name == declared.name
    # An upgrade is the DAG's; the job only judges it.
    assert issubclass(found, Change) == (declared.has_dry_run and declared.name != "upgrade")
    assert issubclass(found, ReadOnly) != issubclass(found, Change)
    if issubclass(found, NextGeneration):
        assert declared.takes_lease, "what makes another generation current keeps the stream from running"


def test_arguments_are_checked_and_filled_in() -> None:
    prune = verb_of("prune")
    defaults = {"operations_days": 30, "generations": 1}
    assert arguments_of(prune, {"days": 0}) == {"keep": 3, "days": 0, **defaults}
    for given, words in (
        ({"keep": 0}, "keep: expected a number of at least 1, found 0"),
        ({"keep": "3"}, "keep: expected a number of at least 1, found '3'"),
        ({"days": True}, "days: expected a number"),
        ({"until": 3}, "expected keep, days, operations_days, generations, found until"),
    ):
        with pytest.raises(VerbError, match=words):
            arguments_of(prune, given)
    with pytest.raises(VerbError, match=r"expected one of savepoint, .* found 'vanish'"):
        verb_of("vanish")


def test_operations_of_the_same_second_have_folders_of_their_own(installed: Installed) -> None:
    ids = [operation(installed, "savepoints").id for _ in range(3)]
    assert ids == [f"20261122T034500Z-savepoints{suffix}" for suffix in ("", "-2", "-3")]


def test_a_savepoint_and_a_restore_by_request(installed: Installed) -> None:
    code, result = perform(installed, "savepoint", reason="before <b>")
    assert (code, result["state"], result["data"]["savepoint"]) == (0, "done", "20261122T034500Z")
    manifest = installed.catalog.require_good("20261122T034500Z")
    assert manifest.yaml.startswith("# yaml-language-server")
    assert manifest.state_version == 1

    code, result = perform(installed, "restore", savepoint="20261122T024500Z")
    assert (code, result["data"]["generation"]) == (0, 2)
    assert installed.generation.number == 2
    page = Path(result_folder(installed, "restore"), "index.html").read_text()
    assert "back at savepoint 20261122T024500Z" in page
    assert lease(installed).acquire().epoch == 4, "the lease was given back"


def result_folder(installed: Installed, verb: str) -> Path:
    return installed.folder / "data" / "operations" / STREAM / f"20261122T034500Z-{verb}"


@pytest.mark.parametrize("verb", ["savepoint", "restore"])
def test_a_stream_that_runs_is_left_alone(
    installed: Installed, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = installed.rows()
    holder = lease(installed)
    holder.acquire()
    code, result = perform(installed, verb)
    assert (code, result["state"]) == (1, "refused")
    assert "the lease is held by run run-9" in result["message"]
    assert "@error\tstream device_lifecycle: the lease is held" in capsys.readouterr().out
    holder.check()
    assert installed.rows() == before
    assert installed.catalog.ids() == ["20261122T024500Z"]


@pytest.mark.parametrize(
    ("verb", "given"), [("savepoint", {}), ("restore", {}), ("repartition", {"partitions": 5})]
)
def test_a_dry_run_says_of_a_stream_that_runs_what_would_be(
    installed: Installed, verb: str, given: dict[str, Any]
) -> None:
    lease(installed).acquire()
    installed.plan(3)  # a batch is under way
    code, result = perform(installed, verb, dry_run=True, **given)
    assert (code, result["state"]) == (0, "done"), result
    assert "would" in result["lines"][0]
    assert result["lines"][-1].startswith("The stream runs. It has to be stopped for that")
    assert installed.generation.number == 1
    assert installed.catalog.ids() == ["20261122T024500Z"]


def again(installed: Installed, verb: str, **given: Any) -> tuple[int, dict[str, Any]]:
    """A try of the same task of Airflow's; the job of the one before it may have ended anywhere."""
    settings = Settings(home=installed.folder, data=f"file://{installed.folder}/data")
    asked = prepare(
        verb_of(verb), load_spec(STREAM), settings, given, now=NOW + timedelta(hours=1), asked_by="dag/run"
    )
    return job.main([asked.request_uri]), asked.result() or {}


def test_a_try_after_the_last_act_does_nothing_again(installed: Installed) -> None:
    code, first = again(installed, "savepoint")
    assert (code, installed.catalog.ids()) == (0, ["20261122T024500Z", "20261122T034500Z"])
    code, second = again(installed, "savepoint")
    assert (code, second["operation"], second["data"]) == (0, first["operation"], first["data"])
    assert len(installed.catalog.ids()) == 2
    code, first = again(installed, "restore", savepoint="20261122T024500Z")
    assert (code, installed.generation.number) == (0, 2)
    code, second = again(installed, "restore", savepoint="20261122T024500Z")
    assert (code, second["data"], installed.generation.number) == (0, first["data"], 2)


def test_a_savepoint_that_was_half_made_is_made_again(installed: Installed) -> None:
    _, made = again(installed, "savepoint")
    folder = installed.folder / "data" / "savepoints" / STREAM / made["data"]["savepoint"]
    (folder / "manifest.json").unlink()
    (folder / "checkpoint" / "left").write_text("over")
    code, result = again(installed, "savepoint")
    assert code == 0, result
    assert installed.catalog.look(folder.name).is_good
    assert not (folder / "checkpoint" / "left").exists()


def test_operations_of_one_second_have_names_of_their_own_unless_the_same_one_asks_again(
    installed: Installed,
) -> None:
    settings = Settings(home=installed.folder, data=f"file://{installed.folder}/data")

    def name(asked_by: str) -> str:
        verb = verb_of("savepoints")
        return prepare(verb, load_spec(STREAM), settings, {}, now=NOW, asked_by=asked_by).id

    names = [name("a"), name("b"), name("a"), name(""), name("")]
    base = "20261122T024500Z-savepoints"
    assert names == [base, f"{base}-2", base, f"{base}-3", f"{base}-4"]


def test_pruning_removes_old_operations_and_generations_too(installed: Installed) -> None:
    again(installed, "restore", savepoint="20261122T024500Z")
    root, operations = installed.path.parent, installed.folder / "data" / "operations" / STREAM
    old, young = (f"{stamp(utc_now() - timedelta(days=days))}-savepoint" for days in (40, 20))
    for name in (old, young, "notes"):
        (operations / name).mkdir()
    (log := installed.folder / "operations" / STREAM / f"{old}.log").touch()
    _, would = perform(installed, "prune", dry_run=True, generations=0)
    assert (root / "g0001").exists()
    assert (operations / old).exists()
    code, done = perform(installed, "prune", generations=0)
    assert code == 0
    assert would["data"]["generations"] == done["data"]["generations"] == [1]
    assert old in done["data"]["operations"]
    assert sorted(path.name for path in root.iterdir()) == ["current.json", "g0002"]
    assert not log.exists()
    assert not (operations / old).exists()
    assert {young, "notes", done["operation"]} <= {path.name for path in operations.iterdir()}


@pytest.mark.parametrize(
    ("current", "names", "keep", "gone"),
    [
        (3, ["g0001", "g0002", "g0003", "current.json"], 1, [1]),
        (3, ["g0001", "g0002", "g0003"], 0, [1, 2]),
        (1, ["g0001", "g0002"], 0, []),  # the second may be in the making
        (3, ["metadata", "offsets", "g0002", "g0003"], 0, [1, 2]),
        (1, ["metadata", "offsets"], 0, []),
        (12, ["g0010", "g0011", "g0012"], 5, []),
    ],
)
def test_which_generations_go(current: int, names: list[str], keep: int, gone: list[int]) -> None:
    generation = generations.Generation("file:///r", current, generations.folder_of(current))
    assert old_generations(generation, names, keep) == gone


def test_a_first_generation_in_the_root_goes_without_the_others(installed: Installed) -> None:
    root = installed.path.parent
    first = installed.path
    for path in list(first.iterdir()):
        path.rename(root / path.name)
    first.rmdir()
    assert installed.generation.folder == ""
    again(installed, "restore", savepoint="20261122T024500Z")
    perform(installed, "prune", generations=0)
    assert sorted(path.name for path in root.iterdir()) == ["current.json", "g0002"]


def test_savepoints_can_be_looked_at_and_pruned_while_the_stream_runs(installed: Installed) -> None:
    lease(installed).acquire()
    assert perform(installed, "savepoints")[1]["data"]["savepoints"][0]["good"]
    code, result = perform(installed, "prune")
    assert (code, result["data"]["removed"], result["data"]["bytes"]) == (0, [], 0)


def test_a_broken_savepoint_is_an_answer_and_no_error(installed: Installed) -> None:
    copy = installed.folder / "data" / "savepoints" / STREAM / "20261122T024500Z" / "checkpoint"
    (copy / "commits/1").write_text("v2")
    code, result = perform(installed, "verify")
    assert (code, result["state"], result["good"]) == (2, "done", False)
    [row] = result["listings"][0]["rows"]
    assert row[1].startswith("broken: commits/1 has 2 bytes, expected")


def test_nothing_else_is_done_while_an_operation_has_not_ended(installed: Installed) -> None:
    pending = Pending("op-0", "restore", f"file://{installed.folder}/journal.json")
    generations.announce(installed.generation, pending, NOW)
    for verb in ("savepoint", "prune"):
        code, result = perform(installed, verb)
        assert (code, result["state"]) == (1, "refused")
        assert "operation op-0 began to change them and did not end" in result["message"]


def test_a_dry_run_of_a_restore_says_so_and_changes_nothing(installed: Installed) -> None:
    before = installed.rows()
    code, result = perform(installed, "restore", dry_run=True)
    assert (code, result["dry_run"]) == (0, True)
    assert "would be back at savepoint 20261122T024500Z" in result["lines"][0]
    assert installed.rows() == before
    assert installed.generation.number == 1


def test_a_failure_is_written_down(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(verb: SavepointsVerb) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(SavepointsVerb, "apply", broken)
    code, result = perform(installed, "savepoints")
    assert (code, result["state"]) == (1, "failed")
    assert "stream device_lifecycle: savepoints could not go on" in result["message"]
    assert "(disk on fire). The stream's current checkpoint is as it was" in result["message"]


def test_a_page_shows_text_as_text() -> None:
    result = {
        "verb": "verify",
        "stream": "s",
        "operation": "o",
        "arguments": {"savepoint": None, "reason": "<b>"},
        "state": "done",
        "good": False,
        "dry_run": True,
        "message": "",
        "began_at": "a",
        "ended_at": "b",
        "lines": ["1 < 2"],
        "listings": [{"title": "T", "columns": ["c"], "rows": [["<script>"], [1234567], [None]]}],
    }
    page = render(result)
    assert "<script>" not in page
    for expected in ("1 &lt; 2", "1,234,567", "something is wrong", "Dry run", "&lt;b&gt;"):
        assert expected in page


def run_here(command: list[str], variables: dict[str, str], log: Path, report: Callable[..., None]) -> bool:
    """In the place of a process."""
    code = job.main(command[-1:])
    if code == 1:
        raise batch_job.JobError("said no")
    return code == 0


def test_the_command_line_has_every_verb(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_job, "run", run_here)
    monkeypatch.setenv("COLUMNS", "200")
    cli = CliRunner()
    shown = cli.invoke(app, ["state", "savepoints", STREAM])
    assert shown.exit_code == 0, shown.output
    assert "of which 1 are good" in shown.output
    assert "before an upgrade" in shown.output

    would = cli.invoke(app, ["state", "savepoint", STREAM, "--reason", "now", "--dry-run"])
    assert would.exit_code == 0, would.output
    assert "would have generation 1" in would.output
    lease(installed).acquire()
    assert cli.invoke(app, ["state", "restore", STREAM]).exit_code == 2
    assert cli.invoke(app, ["state", "prune", STREAM, "--keep", "0"]).exit_code == 2
    [request] = installed.folder.glob("data/operations/*/*-savepoint/request.json")
    assert json.loads(request.read_text())["arguments"] == {"reason": "now"}
