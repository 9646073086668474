"""Incidents of streams and tables, and their delivery to the Airflow notifiers that a YAML file lists."""
