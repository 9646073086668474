"""Status, history and metrics of a driver."""
