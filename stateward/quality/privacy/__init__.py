"""Personal values, masked wherever people look."""
