"""Migrations of keys and schemas, and initial states: computed, written, verified."""
