"""Recomputes a stream's tables from the table ``raw_events``, by the stream's own logic."""
