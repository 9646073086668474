"""A running stream removes its oldest batches while its state is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.state.errors import StateError
from stateward.state.inspection.sizes import Sample
from stateward.state.reader.retained_batches import Retained, newer_half
from stateward.state.verbs import explain as explaining
from stateward.state.verbs import inspect as inspecting

SPARK: Any = None


def checkpoint(folder: Path, first: int, last: int) -> Path:
    """A checkpoint that retains these batches."""
    head = '{"batchWatermarkMs": 0, "batchTimestampMs": 0}'
    for batch in range(first, last + 1):
        for name, text in (("commits", "v1\n{}"), ("offsets", f"v1\n{head}\n{{}}")):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / str(batch)).write_text(text)
    return folder


def let_go(folder: Path, batch: int) -> None:
    (folder / "commits" / str(batch)).unlink()


def reads(folder: Path, unreadable: set[int], lets_go: set[int]) -> Any:
    """In place of a read through Spark: some batches fail, of which some are no longer there afterwards."""

    def sample(spark: Any, found: Retained, stores: Any, plan: PlannedBatch) -> Sample:
        if plan.batch_id in unreadable:
            if plan.batch_id in lets_go:
                let_go(folder, plan.batch_id)
            raise StateError(f"batch {plan.batch_id} cannot be read")
        return Sample(plan.batch_id, 0, 1)

    return sample


def looked_at(folder: Path) -> list[int]:
    found = Retained("visits", f"file://{folder}", tuple(range(3, 9)), 8, 0, 0)
    earlier = [PlannedBatch(batch, {}, 0, 0) for batch in (3, 5, 7)]
    return [sample.batch_id for sample in inspecting._samples(SPARK, found, (), earlier)]


def test_growth_goes_without_a_batch_that_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(tmp_path, 3, 8)
    monkeypatch.setattr(inspecting, "_sample", reads(tmp_path, {3}, {3}))
    assert looked_at(tmp_path) == [5, 7]


def test_a_batch_that_is_there_and_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(tmp_path, 3, 8)
    monkeypatch.setattr(inspecting, "_sample", reads(tmp_path, {3}, set()))
    with pytest.raises(StateError, match="batch 3 cannot be read"):
        looked_at(tmp_path)


@pytest.mark.parametrize(
    ("asked", "kept"), [(8, (6, 7, 8)), (7, (6, 7, 8)), (4, (4, 5, 6, 7, 8)), (3, (3, 4, 5, 6, 7, 8))]
)
def test_the_newer_half_has_the_batch_that_was_asked_for(asked: int, kept: tuple[int, ...]) -> None:
    assert newer_half(Retained("visits", "file:///c", tuple(range(3, 9)), asked, 0, 0)).batches == kept


def test_a_history_whose_beginning_has_gone_begins_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[int, ...]] = []

    def explained(spark: Any, found: Retained, *_: Any, **__: Any) -> str:
        tried.append(found.batches)
        if len(tried) == 1:
            let_go(tmp_path, 3)
            raise StateError("batch 3 cannot be read")
        return "explained"

    checkpoint(tmp_path, 3, 8)
    monkeypatch.setattr(explaining, "_explained", explained)

    answer: object = explaining.explain(SPARK, f"file://{tmp_path}", "visits", "u1")
    assert answer == "explained"
    assert tried == [(3, 4, 5, 6, 7, 8), (6, 7, 8)]


def test_a_history_that_is_all_there_and_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explained(*_: Any, **__: Any) -> None:
        raise StateError("it cannot be read")

    checkpoint(tmp_path, 3, 8)
    monkeypatch.setattr(explaining, "_explained", explained)
    with pytest.raises(StateError, match="it cannot be read"):
        explaining.explain(SPARK, f"file://{tmp_path}", "visits", "u1")
