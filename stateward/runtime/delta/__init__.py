"""Delta tables without Spark: opened, written, committed with retries, and repaired after a power loss."""
