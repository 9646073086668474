"""Streams under the whole platform while one thing after another is killed."""
