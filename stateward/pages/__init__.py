"""Pages that the plugins serve inside Airflow's UI."""
