"""Java, and the pinned JARs."""
