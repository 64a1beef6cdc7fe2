"""Numbered migrations; the number reached is the database's user_version."""
