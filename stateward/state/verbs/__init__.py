"""The verbs of state operations, one file each, and their registry."""
