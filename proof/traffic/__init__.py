"""Generated events whose outcome is known: the same plan makes the same bytes."""
