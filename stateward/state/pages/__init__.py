"""The result pages of state operations."""
