"""Every name that is imported from this project exists.

The slow tiers import modules that the fast ones do not; without this test a renamed name fails only there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("benchmarks", "dags", "include", "proof", "spark_jobs", "stateward", "tests")


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def names_of(module: str) -> frozenset[str] | None:
    """What can be imported from a module of the project; None if there is no such module."""
    folder = ROOT.joinpath(*module.split("."))
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    inside = {path.stem for path in folder.iterdir()} if folder.is_dir() else set()
    if not file.is_file():
        return frozenset(inside) or None
    return frozenset(inside.union(*(_defined(node) for node in ast.walk(ast.parse(file.read_text())))))


def _defined(node: ast.AST) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    return set()


def missing(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FOLDERS:
            names = names_of(str(node.module))
            for alias in node.names:
                if names is None or alias.name not in names:
                    yield f"{file.relative_to(ROOT)}:{node.lineno} imports {alias.name} from {node.module}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_imported_names_exist(folder: str) -> None:
    found = files(folder)
    assert found, f"expected Python files in {folder}, found none"
    assert [problem for file in found for problem in missing(file)] == []
