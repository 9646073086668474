"""Removes one key, such as a person, from everything that a stream has written (docs/forget.md)."""
