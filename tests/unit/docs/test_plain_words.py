"""Text, comments and messages use plain technical English: the habits below do not occur."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SUFFIXES = {".py", ".md", ".yaml", ".yml", ".j2", ".toml", ".json", ".js"}
_START = r"(?:^[\s\-*|#>\"'(]*|[.:;!?]\s+)"
HABITS = {
    "name the subject first": _START
    + r"Of (?:an?|all|both|each|every|it|its|no|one|several|some|such|the|these|this|those|two|wh\w+)\b",
    "write 'again'": r"\b[Aa]new\b",
    "write 'now' or 'current'": r"\b(?:as )?of\s+now\b",
    "say how, or leave it out": r"\bin words\b",
    "write 'belongs in'": r"\bbelong(?:s|ing)? into\b",
    "name the process or the person": r"\b(?:[Nn]o|[Ss]ome)body\b",
    "write 'reports', 'notifies' or 'receives'": r"\b(?:is|are|be|being|was|were) told\b",
    "write 'To ...'": _START + r"Who(?:ever)? (?:has|is|may|needs|wants)\b",
    "write 'start' or 'beginning'": r"\b(?:an?|its|the|their) begin\b",
    "write 'for'": r"\bsince (?:\d+|two|three|four|five|ten) (?:seconds|minutes|hours|days|weeks)\b",
}


def tracked() -> Iterator[Path]:
    """Text files under version control that are checked, without this one."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        file = ROOT / name
        checked = not name.startswith("data/") and file.suffix in SUFFIXES
        if checked and file.is_file() and file != Path(__file__).resolve():
            yield file


def habits(text: str) -> Iterator[str]:
    """Each line with a habit, and what to write instead."""
    for number, line in enumerate(text.splitlines(), 1):
        for advice, pattern in HABITS.items():
            if re.search(pattern, line):
                yield f"{number}: {advice}: {line.strip()}"


def test_text_is_in_plain_words() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{habit}"
        for file in tracked()
        for habit in habits(file.read_text(encoding="utf-8"))
    ]
    assert found == [], "\n".join(found)


# A bar in the middle of a habit keeps these lines from being examples of it.
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("O|f the two tables one is empty.", True),
        ("# O|f what is left, one.", True),
        ("One table of the two is empty.", False),
        ("It is made a|new.", True),
        ("W|ho wants mail: see there.", True),
        ("A user who wants mail", False),
        ("from the be|gin of a topic", True),
        ("held since two| hours", True),
        ("held since 12:00", False),
    ],
)
def test_habits_are_recognised(line: str, expected: bool) -> None:
    assert bool(list(habits(line.replace("|", "")))) == expected
