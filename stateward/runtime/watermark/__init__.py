"""Ticks, timers and the event times of each partition."""
