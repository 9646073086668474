"""Checkpoints: reading them without Spark, generations, and repair after a power loss."""
