"""The page about fraud_watch shows the table of transitions as it is."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.fraud_watch import transitions
from spark_jobs.fraud_watch.model import STATES
from spark_jobs.fraud_watch.transitions import TRANSITIONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "streams" / "fraud_watch.md"


def test_the_drawn_block_of_the_page_is_current() -> None:
    remedy = "replace the block by what the command in its first line prints"
    assert transitions.drawn() in PAGE.read_text(encoding="utf-8"), remedy


def test_the_picture_shows_every_way_into_and_out_of_a_state() -> None:
    lines = transitions.drawn().split("```")[1].splitlines()
    moves = [row for row in TRANSITIONS.values() if row.to != row.state]
    assert lines[:2] == ["mermaid", "stateDiagram-v2"]
    assert len(lines) - 2 == len(moves)
    assert "    [*] --> watching: transaction" in lines
    assert "    suspicious --> flagged: review_confirmed / alert FLAGGED" in lines


def test_a_row_that_stays_in_its_state_writes_nothing() -> None:
    stays = [row for row in TRANSITIONS.values() if row.to == row.state]
    assert all((row.alert, row.summary, row.clears_window) == (None, None, False) for row in stays)


def test_every_state_is_reached_and_left() -> None:
    assert {row.to for row in TRANSITIONS.values() if row.to != row.state} == set(STATES)
    assert {row.state for row in TRANSITIONS.values() if row.to != row.state} == set(STATES)
