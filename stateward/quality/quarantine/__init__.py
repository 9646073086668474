"""Rows that break an expectation, where they came from, and the valid rest."""
