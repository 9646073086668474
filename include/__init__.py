"""Streams, suites, notifiers and maintenance as YAML; the packages here keep class paths of 0.1."""
