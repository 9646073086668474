"""Each picture of the docs is taken by a browser test and shown on a page; made-up data is named as such."""

from __future__ import annotations

import ast
import re

import pytest

from stateward.project.settings import CHECKOUT
from tests.support.pages.browser import IMAGES
from tests.support.pages.pictures import PICTURES, SAMPLES

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
# The line below a picture is looked at only: it may be the next picture.
SHOWN = re.compile(
    r"^!\[[^\]]+\]\((?:\S*/)?images/(?P<name>[\w-]+)\.png\)$(?:(?=\n\n(?P<below>.*)))?", re.MULTILINE
)
FOUND = [
    (page, found["name"], found["below"] or "")
    for page in PAGES
    for found in SHOWN.finditer(page.read_text())
]


def names_of(test: ast.AST) -> set[str]:
    """The texts in a test, its decorators included."""
    found = (node.value for node in ast.walk(test) if isinstance(node, ast.Constant))
    return {text for text in found if isinstance(text, str)}


def test_every_picture_has_a_test_and_is_on_a_page() -> None:
    pictures = {file.stem for file in IMAGES.glob("*.png")}
    assert pictures == set(PICTURES), "tests/support/pages/pictures.py names the test of each picture"
    assert pictures == {name for _, name, _ in FOUND}, "a picture that no page shows"
    assert sum(page.read_text().count(".png)") for page in PAGES) == len(FOUND)


@pytest.mark.parametrize("picture", PICTURES)
def test_the_named_test_takes_the_picture_and_no_other_does(picture: str) -> None:
    file, _, name = PICTURES[picture].partition("::")
    module = ast.parse((CHECKOUT / file).read_text())
    tests = [
        node for node in module.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert [test.name for test in tests if picture in names_of(test)] == [name]
    assert "keep" in {
        alias.name for node in module.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def test_a_picture_of_made_up_data_says_so_under_it() -> None:
    for page, name, below in FOUND:
        made_up = PICTURES[name].startswith(SAMPLES)
        assert below.startswith("*Sample data") == made_up, f"{page.name}: {name}.png"
