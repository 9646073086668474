"""Savepoints: taken, catalogued, verified, restored, pruned."""
