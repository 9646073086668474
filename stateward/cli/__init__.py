"""The `stateward` command: one file per verb."""
