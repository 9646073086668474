"""Windows over the events of each user, by Spark's own operators: docs/streams/event_windows.md."""
