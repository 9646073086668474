"""Observe, decide, act: what keeps a stream in its desired state."""
