"""The scenarios of each topic."""
