"""DAG factories, operators, triggers, notifiers and plugins: the only package that imports airflow."""
