"""How Data Docs look."""
