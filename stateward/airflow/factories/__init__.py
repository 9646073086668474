"""Factories of DAGs, one module for each kind; `project_dags` calls them all."""
