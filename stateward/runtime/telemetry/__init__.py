"""Status, history and measures of a driver."""
