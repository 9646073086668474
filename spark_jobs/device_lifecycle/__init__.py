"""Devices that report, fall silent and come back: see docs/streams/device_lifecycle.md."""
