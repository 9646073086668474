"""The documentation: width of its lines, and links, anchors and paths that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WIDTH = 100
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:stateward|tests|proof|benchmarks|include|docs)/[\w./-]+\.\w+)`")
# Names in commands and examples, and files in a checkpoint's folder.
EXAMPLE = re.compile(r"door_refusals|TABLE|^stateward/\w+\.json$")
# What `python -m benchmarks.report` writes is as wide as its commands.
GENERATED = re.compile(r"<!-- written by .*?<!-- end of what is written -->", re.DOTALL)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without tables, code, images, comments and generated text."""
    text = GENERATED.sub(lambda found: "\n" * found[0].count("\n"), text)
    fence = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence and not line.startswith(("|", "    ", "![", "<!--")):
            yield number, line


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_wraps_at_100_characters(page: Path) -> None:
    wide = [
        f"{number}: {line}"
        for number, line in prose(page.read_text(encoding="utf-8"))
        if len(line) > WIDTH and " " in line.lstrip("#-*0123456789. ")[:WIDTH]
    ]
    assert wide == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in LINK.findall(text):
        name, _, anchor = target.partition("#")
        if ":" in name:
            continue
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    broken += [path for path in PATH.findall(text) if not (ROOT / path).exists() and not EXAMPLE.search(path)]
    assert broken == []
