"""Factories of DAGs."""
