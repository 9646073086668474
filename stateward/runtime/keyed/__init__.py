"""Keyed state: buckets of keys, admission, the log of states and its local copy."""
