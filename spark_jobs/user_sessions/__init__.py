"""Sessions of one user: see docs/streams/user_sessions.md."""
