"""What can be done with the state of a stopped stream: one verb a file."""
