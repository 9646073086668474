"""Which generation is current, and when a driver must not start on it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stateward.runtime.cause import cause_of
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import (
    UNFINISHED,
    Pending,
    PendingOperationError,
    PointerError,
    is_beside,
)

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def test_without_a_document_the_first_counts(tmp_path: Path) -> None:
    found = generations.current(f"file://{tmp_path}/")
    assert (found.number, found.uri) == (1, f"file://{tmp_path}/g0001")
    found.require_settled("s")


def test_a_checkpoint_from_before_there_were_generations_is_the_first(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id": "q"}')
    found = generations.current(f"file://{tmp_path}")
    assert (found.number, found.uri) == (1, f"file://{tmp_path}")
    assert found.following().uri == f"file://{tmp_path}/g0002"


def test_one_write_makes_the_next_generation_current_and_ends_the_operation(tmp_path: Path) -> None:
    first = generations.current(f"file://{tmp_path}")
    generations.announce(first, Pending("20261122T000000Z-restore", "restore", "file:///journal"), NOW)
    meanwhile = generations.current(f"file://{tmp_path}")
    assert meanwhile.uri == first.uri
    with pytest.raises(
        PendingOperationError, match=r"stream s: .*000000Z-restore .*`stateward state restore s`"
    ):
        meanwhile.require_settled("s")

    generations.make_current(first.following(), "20261122T000000Z-restore", NOW)
    after = generations.current(f"file://{tmp_path}")
    assert (after.number, after.uri, after.pending) == (2, f"file://{tmp_path}/g0002", None)
    assert json.loads((tmp_path / "current.json").read_text()) == {
        "version": 1,
        "generation": 2,
        "folder": "g0002",
        "made_by": "20261122T000000Z-restore",
        "at": "2026-11-22T00:00:00.000Z",
    }


@pytest.mark.parametrize("content", ["{}", '{"generation": "x", "folder": "g"}', "[]", "{"])
def test_a_document_that_says_nothing_is_no_reason_to_start_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "current.json").write_text(content)
    with pytest.raises(PointerError, match=r"current\.json: expected the current generation"):
        generations.current(f"file://{tmp_path}")


@pytest.mark.parametrize("first", ["g0001", ""])
def test_a_document_that_is_gone_is_no_reason_to_take_the_first(tmp_path: Path, first: str) -> None:
    for folder, batch in ((first, 7), ("g0002", 12), ("g0003", 40)):
        (tmp_path / folder / "commits").mkdir(parents=True)
        (tmp_path / folder / "commits" / str(batch)).touch()
        (tmp_path / folder / "metadata").write_text('{"id": "q"}')

    with pytest.raises(PointerError) as refusal:
        generations.current(f"file://{tmp_path}")

    assert (cause_of(refusal.value).kind, cause_of(refusal.value).lasting) == ("state", True)
    for named in (str(tmp_path), "(batch 7)", "g0002 (batch 12)", "g0003 (batch 40)"):
        assert named in str(refusal.value)
    [choice] = re.findall(r"write (\{.*?\}) into", str(refusal.value))
    (tmp_path / "current.json").write_text(choice)
    assert generations.current(f"file://{tmp_path}").uri == f"file://{tmp_path}/g0003"


def test_a_generation_that_was_never_finished_does_not_count(tmp_path: Path) -> None:
    for folder in ("g0001", "g0002", "g0003"):
        (tmp_path / folder).mkdir()
    for folder in ("g0001", "g0002"):
        (tmp_path / folder / "metadata").write_text('{"id": "q"}')
    (tmp_path / "g0002" / UNFINISHED).write_text("{}")

    assert generations.current(f"file://{tmp_path}").number == 1


def test_what_counts_is_written_down_before_the_next_one_is_built(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}"
    generations.pin(f"{uri}/g0002", NOW)
    generations.pin(f"{uri}/g0002", NOW)
    generations.pin(f"{uri}/elsewhere", NOW)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["current.json"]
    # An operation killed before its last step leaves a complete checkpoint that is not current yet.
    (tmp_path / "g0002").mkdir()
    (tmp_path / "g0002" / "metadata").write_text('{"id": "q"}')
    assert generations.current(uri).uri == f"{uri}/g0001"


def test_what_lies_beside_a_checkpoint_in_the_root_is_told_apart() -> None:
    assert [
        name for name in ("current.json", "g0002", "g12345", "state", "gone", "metadata") if is_beside(name)
    ] == [
        "current.json",
        "g0002",
        "g12345",
    ]
