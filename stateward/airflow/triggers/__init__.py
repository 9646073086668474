"""Airflow triggers. They only observe."""
