"""Every entry of the runbook has tests, and they exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stateward.project.settings import CHECKOUT

DOCS = CHECKOUT / "docs"


def entries(text: str) -> Iterator[str]:
    """First cells of tables, and starts of list items; the heading of a section without either."""
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        rows = [line for line in body.splitlines() if line.startswith("|")][2:]
        found = [cells(row)[0] for row in rows] + re.findall(r"^- \*\*(.+?)\*\*", body, re.MULTILINE)
        yield from found or [title]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split(" | ")]


def covered() -> dict[str, str]:
    rows = [line for line in (DOCS / "runbook-tried.md").read_text().splitlines() if line.startswith("|")]
    found = {}
    for row in rows[2:]:
        entry, by = cells(row)
        found[entry] = by
    return found


def test_every_entry_has_its_tests() -> None:
    wanted = list(entries((DOCS / "runbook.md").read_text()))
    assert len(wanted) > 30
    assert list(covered()) == wanted


def test_the_named_tests_exist() -> None:
    missing = []
    for entry, by in covered().items():
        named = re.findall(r"`(tests/\S+\.py)::(\w+)`", by)
        assert named, f"no test covers: {entry}"
        missing += [f"{file}::{name}" for file, name in named if name not in functions_of(file)]
    assert missing == []


def functions_of(file: str) -> set[str]:
    path = CHECKOUT / file
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
