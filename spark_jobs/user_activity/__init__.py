"""Logins and logouts of one user: see docs/streams/user_activity.md."""
