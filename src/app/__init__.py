"""Serves the import paths that the documents of the earlier system name; nothing else lives in here."""

from ringrift.compat.finder import install

install()
