"""One stream's query: source, operators and sink put together."""
