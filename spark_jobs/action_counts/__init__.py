"""Running counts of what users do, by processing time: see docs/streams/action_counts.md."""
