"""Steps of an intrusion in their order, per source: see docs/streams/intrusion_patterns.md."""
