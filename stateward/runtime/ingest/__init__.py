"""Decoding: from the bytes of a record to an event, or to a dead letter with its reason."""
