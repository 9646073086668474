"""How a driver is started, found again, and ended."""
