"""Fixtures for every tier. What needs Spark or Airflow lives in that tier's own conftest."""

from __future__ import annotations

pytest_plugins = ["tests.kafka_broker"]
