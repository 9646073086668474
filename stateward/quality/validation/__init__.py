"""One validation of one table over a range of its versions."""
