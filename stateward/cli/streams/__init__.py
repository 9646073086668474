"""The actions of a stream without a browser, by Airflow's REST API."""
