"""The operator's page: streams, their history and their charts."""
