"""What every state operation does: lease, journal, request, answer."""
