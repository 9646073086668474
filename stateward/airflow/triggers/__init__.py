"""Airflow triggers: they only watch."""
