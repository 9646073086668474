"""What `stateward backfill` asks for."""
