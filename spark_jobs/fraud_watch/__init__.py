"""Accounts that may be abused, and their review: see docs/streams/fraud_watch.md."""
