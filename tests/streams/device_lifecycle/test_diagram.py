"""The page about device_lifecycle shows the table of transitions as it is."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.device_lifecycle import transitions
from spark_jobs.device_lifecycle.model import ABSENT, FINAL, MODES
from spark_jobs.device_lifecycle.transitions import TRANSITIONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "streams" / "device_lifecycle.md"


def test_the_drawn_block_of_the_page_is_current() -> None:
    remedy = "replace the block by what the command in its first line prints"
    assert transitions.drawn() in PAGE.read_text(encoding="utf-8"), remedy


def test_the_picture_shows_every_way_into_and_out_of_a_mode() -> None:
    lines = transitions.drawn().split("```")[1].splitlines()
    moves = [row for row in TRANSITIONS.values() if row.to != row.state]
    assert lines[:2] == ["mermaid", "stateDiagram-v2"]
    assert len(lines) - 2 == len(moves) + len(FINAL)
    assert "    [*] --> running: running" in lines
    assert "    offline --> retired: retired / alert BACK_ONLINE" in lines
    assert "    retired --> [*]" in lines


def test_a_row_that_stays_in_its_mode_raises_no_alert() -> None:
    assert all(row.alert is None for row in TRANSITIONS.values() if row.to == row.state)


def test_every_mode_is_reached_and_left() -> None:
    reached = {row.to for row in TRANSITIONS.values() if row.to != row.state}
    left = {row.state for row in TRANSITIONS.values() if row.to != row.state}
    assert reached == set(MODES) - {ABSENT}
    assert left == set(MODES) - set(FINAL)
