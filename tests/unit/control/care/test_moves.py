"""The run on the real platform: what its levels lead to, and how its moves are measured and shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from proof.care.measured_moves import LEVELS, Move, Outcome, longest_gap
from proof.care.moves_report import draw, table, write_page
from stateward.project.settings import CHECKOUT
from stateward.state.partitions.advice import Measured, advise
from stateward.state.partitions.bucket_places import partition_sizes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOVE = Move(
    at=NOW,
    before=1,
    after=3,
    keys=4_000,
    state_bytes=750_000,
    expected_s=91.0,
    pause_s=40.0,
    operation_s=75.0,
    written_bytes=2_500_000,
    steps={"digest": 4.0, "prove": 2.5},
)


@pytest.mark.parametrize(("before", "after"), list(pairwise(LEVELS)))
def test_each_level_of_the_load_needs_its_partitions(before: int, after: int) -> None:
    size = int((after - 0.5) * 300_000)
    by_bucket = (size // 512,) * 512
    found = Measured(
        partitions=before,
        state_bytes=size,
        keys=size // 200,
        records_per_s=100,
        cores=1,
        buckets=512,
        partition_bytes=tuple(partition_sizes("event", by_bucket, before)),
        bucket_bytes=by_bucket,
        lane="event",
        most_bytes=300_000,
    )
    assert (advise(found).partitions, advise(found).buckets) == (after, None), advise(found).reasons


def test_a_pause_is_the_time_between_the_batches_before_and_after_it() -> None:
    before = [NOW + timedelta(seconds=second) for second in (-700, -4, -2, 1, 3)]
    after = [NOW + timedelta(seconds=second) for second in (45, 46, 60, 200, 400)]
    assert longest_gap([*before, *after], NOW, NOW + timedelta(seconds=60)) == 42


def test_the_table_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Above.\n\n<!-- written by `python -m proof.care --platform`: do not edit below -->\nold\n"
        "<!-- end of what is written -->\n\nBelow.\n"
    )
    outcome = Outcome(NOW, moves=[MOVE, replace(MOVE, before=3, after=1)])
    write_page(outcome, page, "One run.")
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("Above.") and text.endswith("Below.\n")
    assert "| 1 → 3 | 4,000 | 0.8 | 91 | 40 | 75 | 6.5 | 2.5 |\n| 3 → 1 |" in text
    assert table(outcome.moves) in text
    write_page(outcome, page, "One run.")
    assert page.read_text() == text


def test_the_picture_has_each_move(tmp_path: Path) -> None:
    series = [(NOW, 1.0), (NOW + timedelta(minutes=5), 3.0)]
    outcome = Outcome(NOW - timedelta(minutes=1), moves=[MOVE], keys=series)
    draw(outcome, tmp_path / "moves.svg")
    assert "1 to 3: 40 s" in (tmp_path / "moves.svg").read_text()


def test_the_page_of_the_care_has_the_marks_of_the_table() -> None:
    text = (CHECKOUT / "docs" / "state-care.md").read_text()
    assert "written by `python -m proof.care --platform`" in text
    assert "<!-- end of what is written -->" in text
