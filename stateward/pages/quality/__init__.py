"""The quality pages: what validations found, table by table."""
