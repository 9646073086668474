"""The care of states on a schedule: what is advised, what may be done by itself, and the record of both."""
