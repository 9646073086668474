"""Pages of a folder on any storage: what a path reaches, and what it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateward.airflow.web.folder_app import is_below, read_page
from stateward.contract.storage import write_text


@pytest.fixture(params=["file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    root = f"file://{tmp_path}" if request.param == "file" else f"memory://{tmp_path.name}"
    write_text(f"{root}/docs/a/page.html", "<p>page</p>")
    write_text(f"{root}/secret.txt", "secret")
    return f"{root}/docs"


def test_a_page_is_read_and_a_missing_one_is_none(folder: str) -> None:
    assert read_page(folder, "a/page.html") == b"<p>page</p>"
    assert read_page(f"{folder}/", "a/page.html") == b"<p>page</p>"
    assert read_page(folder, "a/none.html") is None
    assert read_page(folder, "a") is None


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "/etc/passwd",
        "a//page.html",
        "./a/page.html",
        "a/page.html/",
        "",
    ],
)
def test_no_path_leaves_the_folder_or_names_a_page_in_two_ways(folder: str, path: str) -> None:
    assert not is_below(path)
    assert read_page(folder, path) is None


@pytest.mark.parametrize("path", ["..\\secret.txt", "a\0.html"])
def test_separators_of_other_systems_are_refused(folder: str, path: str) -> None:
    assert read_page(folder, path) is None
