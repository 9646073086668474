"""The files of a checkpoint: copied, compared, checked."""
