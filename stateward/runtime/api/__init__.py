"""What the author of a stream imports."""
