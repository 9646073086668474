"""What the state of a stream that does not run means, and batch jobs on it: one verb a file."""
