"""Keyed state: buckets of keys, admission of events, the state log and its local copy."""
