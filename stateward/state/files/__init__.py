"""Copies and checks the files of a checkpoint."""
