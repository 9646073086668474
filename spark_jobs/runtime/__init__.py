"""The one seam between pure stream logic and the engine."""
