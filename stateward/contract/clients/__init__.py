"""What the clients of storage do differently from each other, made alike."""
