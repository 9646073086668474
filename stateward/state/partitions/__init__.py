"""The number of a state's partitions: measured, advised, changed."""
