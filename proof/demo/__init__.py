"""The demo: the whole thing on real events, driven the way a user would."""
