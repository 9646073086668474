"""The state of a checkpoint, read by batch, operator and variable."""
