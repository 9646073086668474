"""Batch jobs on the state of a stream that does not run: one verb a file (docs/state-operations.md)."""
