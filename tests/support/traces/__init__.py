"""A search for a text in every kind of file that the platform writes, decoded."""
