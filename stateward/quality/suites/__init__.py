"""Expectation suites as data."""
