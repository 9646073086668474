"""Sockets, descriptors and memory under steady batches."""
