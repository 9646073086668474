"""Metrics of every stream for Prometheus (docs/metrics.md)."""
