"""The page about intrusion_patterns shows the patterns as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.intrusion_patterns import patterns
from spark_jobs.intrusion_patterns.model import Pattern
from spark_jobs.intrusion_patterns.patterns import PATTERNS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "streams" / "intrusion_patterns.md"
SECOND = Pattern("guessed", ("auth_failure", "auth_success"), 90_000, "Lock the account.")


def test_the_drawn_block_of_the_page_is_current() -> None:
    remedy = "replace the block by what the command in its first line prints"
    assert patterns.drawn() in PAGE.read_text(encoding="utf-8"), remedy


def test_the_picture_shows_how_each_match_begins_and_ends() -> None:
    assert patterns.picture_of(PATTERNS[0]).splitlines()[1:-1] == [
        "stateDiagram-v2",
        '    state "recon_scan" as steps_1',
        '    state "recon_scan, auth_failure" as steps_2',
        "    [*] --> steps_1: recon_scan",
        "    steps_1 --> steps_2: auth_failure",
        "    steps_2 --> [*]: privilege_escalation / alert recon_to_escalation",
        "    steps_1 --> [*]: 20 min after its recon_scan",
        "    steps_2 --> [*]: 20 min after its recon_scan",
    ]


def test_a_second_pattern_is_drawn_beside_the_first() -> None:
    block = patterns.drawn((*PATTERNS, SECOND))

    assert block.count("```mermaid") == 2
    assert "| `guessed` | `auth_failure`, `auth_success` | 90 s | 1 | Lock the account. |" in block
    assert "    steps_1 --> [*]: auth_success / alert guessed" in block


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(7_200_000, "2 h"), (5_400_000, "90 min"), (90_000, "90 s"), (1_500, "1500 ms")],
)
def test_a_duration_is_a_whole_number_of_its_unit(duration_ms: int, text: str) -> None:
    assert patterns.span(duration_ms) == text
