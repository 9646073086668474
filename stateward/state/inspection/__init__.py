"""Inspection of a state: measures, single keys, comparisons."""
