"""The site of the documentation: what of it follows from the code."""
