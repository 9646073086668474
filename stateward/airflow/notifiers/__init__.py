"""Notifiers of our own, beside those of Airflow's providers."""
