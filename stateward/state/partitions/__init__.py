"""Advice on the number of state partitions, and repartitioning."""
