"""Maintenance of Delta tables beside running streams, without Spark."""
