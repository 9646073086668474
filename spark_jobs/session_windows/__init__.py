"""Sessions of each user, by Spark's own operators: docs/streams/session_windows.md."""
