"""Streams on the whole platform while processes are killed one after the other."""
