"""Serves the import paths that the documents of the earlier system name; nothing else lives in here."""

from ringrift_compat.finder import install

install()
