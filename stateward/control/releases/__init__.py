"""Releases: the code and the YAML that drivers are started with."""
