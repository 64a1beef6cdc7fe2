"""Telling: events into the log, and from the log to whoever reads it."""
