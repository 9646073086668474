"""What `stateward backfill` asks for, and how its Spark job is run."""
