"""Validation of Delta tables at a pinned version."""
