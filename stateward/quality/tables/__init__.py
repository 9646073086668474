"""The versions of a Delta table: its log, and the range of versions that a validation reads."""
