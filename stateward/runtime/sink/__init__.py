"""The sink: writes a batch's rows to Delta tables, files first, then one fenced commit per table."""
