"""The data plane: what runs inside Spark. Imports no airflow."""
