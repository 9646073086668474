"""Fixtures for every tier. What needs Spark or Airflow lives in that tier's own conftest."""

from __future__ import annotations

import signal

from hypothesis import settings

pytest_plugins = ["tests.kafka_broker"]

# SIGTERM ends the tests as Ctrl-C does: fixtures still stop the servers they have started.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# Examples of a property that does not name a number of its own; `make check` takes the quick profile.
settings.register_profile("full", max_examples=500)
settings.register_profile("quick", max_examples=60)
settings.load_profile("full")
