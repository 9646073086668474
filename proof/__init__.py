"""System tests: traffic with a known result, chaos, soak, two drivers on one checkpoint."""
