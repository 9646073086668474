"""Stream ``raw_events``: every record of the data topics as it is, so that it can be read again."""
