"""What is in a state: measures, single keys, comparisons."""
