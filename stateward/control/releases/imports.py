"""Which parts of the project's package one stream needs, by its import statements."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from stateward.project.project import PACKAGE


def packages_of(stream: str, jobs: Path) -> set[str]:
    """Return the members of the folder `spark_jobs` that a stream needs, itself included.

    What a module imports by a computed name is not found.

    Args:
        stream: Its own package.
        jobs: The folder.

    Returns:
        Names of folders and files in it. Files that are no modules are needed by every stream.
    """
    there = {path.name for path in jobs.iterdir()} if jobs.is_dir() else set()
    needed = {name for name in there if not name.endswith(".py") and (jobs / name).is_file()}
    waiting = [stream, "__init__"]
    while waiting:
        name = waiting.pop()
        for member in {name, f"{name}.py"} & there - needed:
            needed.add(member)
            waiting += _imported_by(jobs / member, jobs)
    return needed


def _imported_by(member: Path, jobs: Path) -> Iterator[str]:
    for file in [member] if member.is_file() else member.rglob("*.py"):
        at = file.stat()
        package = (PACKAGE, *file.relative_to(jobs).parts[:-1])
        yield from _imports(file, package, at.st_size, at.st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _imports(file: Path, package: tuple[str, ...], size: int, changed: int) -> frozenset[str]:
    """Return the members of `spark_jobs` that a module names in its imports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        # The driver's log says more of it.
        return frozenset()
    names = (name.split(".") for node in ast.walk(tree) for name in _names(node, package))
    return frozenset(parts[1] for parts in names if parts[0] == PACKAGE and parts[1:])


def _names(node: ast.AST, package: tuple[str, ...]) -> list[str]:
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = package[: len(package) - node.level + 1] if node.level else ()
    base = ".".join([*above, *([node.module] if node.module else [])])
    return [f"{base}.{one.name}" for one in node.names]
