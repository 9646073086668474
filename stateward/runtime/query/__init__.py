"""The query of a stream: source, operators and sink."""
