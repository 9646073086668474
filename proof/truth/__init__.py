"""What each stream has to make of generated traffic, by the oracle: `python -m proof.truth`."""
