"""Spark's daemon of Python workers (``spark.python.daemon.module``), with the import path of `archives`.

Importing this package has taken the archives from the path; what the daemon imports from here on, and its
workers after it, comes from the installed PySpark.
"""

from __future__ import annotations

from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
