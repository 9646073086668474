"""Fixtures for every tier. What needs Spark or Airflow lives in that tier's own conftest."""

from __future__ import annotations

import signal

pytest_plugins = ["tests.kafka_broker"]

# SIGTERM ends the tests as Ctrl-C does: fixtures still stop the servers they have started.
signal.signal(signal.SIGTERM, signal.default_int_handler)
