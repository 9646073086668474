"""Ticks, timers, and how far the events of each partition have got."""
