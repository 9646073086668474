"""Compatibility of a checkpoint's state with the code: descriptors, findings, the verdict."""
