"""The expected output of each stream for generated traffic, from the oracle: `python -m proof.truth`."""
