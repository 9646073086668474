"""The demo: the platform on real events, used as a user would."""
