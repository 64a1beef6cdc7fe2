"""Serves the import paths that the documents of the earlier system name; nothing else lives in here."""
