"""The notebook that develops a stream, executed from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.full import ci_full

NOTEBOOK = Path(__file__).resolve().parents[3] / "docs" / "notebooks" / "first_stream.ipynb"


@ci_full
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python's own folder of caches, history and profiles is not the user's.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()

    said = ["".join(output.get("text", "") for output in cell.get("outputs", ())) for cell in notebook.cells]
    [before, after] = [text for text in said if "late_events" in text]
    assert "malformed_json" in before and "largest" not in before
    assert "largest" in after and "99.0" in after


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
