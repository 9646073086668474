"""Stateward: long-lived stateful streams of PySpark, run and changed safely under Airflow."""
