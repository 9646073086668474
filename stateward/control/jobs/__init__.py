"""Batch jobs in the foreground, and the requests that they are given."""
