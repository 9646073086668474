"""Which generation counts, and when nothing may run on it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark_jobs.runtime import generations
from spark_jobs.runtime.generations import Pending, PendingOperationError, is_beside

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
def test_a_document_that_says_nothing_is_no_reason_to_begin_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "current.json").write_text(content)
    with pytest.raises(ValueError):
        generations.current(f"file://{tmp_path}")


def test_what_lies_beside_a_checkpoint_in_the_root_is_told_apart() -> None:
    assert [
        name for name in ("current.json", "g0002", "g12345", "state", "gone", "metadata") if is_beside(name)
    ] == [
        "current.json",
        "g0002",
        "g12345",
    ]
