"""Class paths of 0.1, by which Airflow's database names the triggers of tasks that were deferred by it."""
