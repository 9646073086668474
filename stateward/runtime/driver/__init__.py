"""One launch of a driver: entry, session, drain, exit, and causes of failures."""
