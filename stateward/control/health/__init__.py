"""Whether a stream that runs is healthy, and the likely cause when it is not."""
