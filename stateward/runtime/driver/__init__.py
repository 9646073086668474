"""One launch of a driver: entry, session, drain, exit, and the causes of failures."""
