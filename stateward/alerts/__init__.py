"""Who is told of a stream's incidents: Airflow's notifiers, as a YAML file lists them."""
