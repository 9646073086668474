"""Web applications that the plugins mount in Airflow's API server, and access to them."""
