"""PySpark from where it is installed, and not from the archives that spark-submit puts before it.

``spark-submit`` and the JVM begin every Python process's path with ``pyspark.zip`` and ``py4j-src.zip``. What
is imported from an archive is compiled anew in each process, as no bytecode is kept: half a second for the
driver and for each of Spark's six daemons. The installed package is the same code, with its bytecode.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

_ARCHIVES = ("pyspark.zip", "py4j-")


def without_archives(path: Sequence[str]) -> list[str]:
    """The import path without the archives that belong to an installed PySpark that is on the path as well.

    Args:
        path: As ``sys.path``. Returned as it is where PySpark comes as an archive only, as on a cluster that
            brings its own.
    """
    folders = [entry for entry in path if not _is_archive(entry)]
    found = PathFinder.find_spec("pyspark", folders)
    if found is None or found.origin is None or PathFinder.find_spec("py4j", folders) is None:
        return list(path)
    # Only archives of this very installation: another one may be of another version.
    own = Path(found.origin).resolve().parent / "python" / "lib"
    return [entry for entry in path if not (_is_archive(entry) and Path(entry).resolve().parent == own)]


def _is_archive(entry: str) -> bool:
    name = Path(entry).name
    return name.endswith(".zip") and name.startswith(_ARCHIVES)


def drop_archives() -> None:
    """Take the archives from this process's import path."""
    sys.path[:] = without_archives(sys.path)
