"""What a stream's state is, what may become of it, and the operations on it."""
