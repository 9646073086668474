"""Verbs on streams: actions by Airflow's REST API, checks without an engine, and trials without Kafka."""
