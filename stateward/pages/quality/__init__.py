"""The quality pages: validations by table."""
