"""Imports the installed PySpark instead of the archives that spark-submit puts before it.

``spark-submit`` and the JVM put ``pyspark.zip`` and ``py4j-src.zip`` first on the import path of every Python
process. Archives have no cached bytecode, so each process compiles their modules again: half a second for the
driver and for each of Spark's six daemons. The installed package is the same code with cached bytecode.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

_ARCHIVES = ("pyspark.zip", "py4j-")


def without_archives(path: Sequence[str]) -> list[str]:
    """The import path without the archives of an installed PySpark that is also on the path.

    Args:
        path: The path, as ``sys.path``. Returned unchanged if PySpark exists only as an archive, as on a
        cluster
            with its own PySpark.
    """
    folders = [entry for entry in path if not _is_archive(entry)]
    found = PathFinder.find_spec("pyspark", folders)
    if found is None or found.origin is None or PathFinder.find_spec("py4j", folders) is None:
        return list(path)
    # Only archives of this installation; others may have another version.
    own = Path(found.origin).resolve().parent / "python" / "lib"
    return [entry for entry in path if not (_is_archive(entry) and Path(entry).resolve().parent == own)]


def _is_archive(entry: str) -> bool:
    name = Path(entry).name
    return name.endswith(".zip") and name.startswith(_ARCHIVES)


def drop_archives() -> None:
    """Remove the archives from this process's import path."""
    sys.path[:] = without_archives(sys.path)
