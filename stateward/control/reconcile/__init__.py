"""Observe, decide, act: one reconciliation of a stream, and the loop around it."""
