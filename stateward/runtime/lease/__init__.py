"""The lease of a checkpoint."""
