"""Kafka: the broker's time, offsets, the plan of a batch and the reader in the workers."""
