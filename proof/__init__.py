"""Proofs beside the product: traffic with known truth, chaos, soak, two drivers on one checkpoint."""
