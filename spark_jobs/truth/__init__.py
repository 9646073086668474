"""What each stream has to make of generated traffic, by the oracle: `python -m spark_jobs.truth`."""
