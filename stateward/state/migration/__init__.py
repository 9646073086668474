"""States under other keys or schemas, and first states: computed, written, proved."""
