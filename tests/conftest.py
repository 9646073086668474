"""Fixtures for every tier. What needs Spark or Airflow lives in that tier's own conftest."""

from __future__ import annotations

import signal
import sys

from hypothesis import settings

pytest_plugins = ["tests.support.kafka.broker"]

# SIGTERM ends the tests as Ctrl-C does: fixtures still stop the servers they have started.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# PySpark's Connect client, which Great Expectations imports, takes a process whose main module has no file
# for one of its doctests, and ends it (pyspark.sql.connect.utils). The workers of pytest-xdist have none.
vars(sys.modules["__main__"]).setdefault("__file__", __file__)

# Examples of a property that does not name a number of its own: `make full` takes the full profile, every
# other target the quick one. Without a deadline, which a busy machine misses.
settings.register_profile("full", max_examples=500, deadline=None)
settings.register_profile("quick", max_examples=60, deadline=None)
settings.load_profile("full")
