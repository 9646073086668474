"""Spark's daemon of Python workers (``spark.python.daemon.module``), with the import path of `import_path`.

Importing this package removes the archives from the path, so the daemon and its workers import the installed
PySpark.
"""

from __future__ import annotations

from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
