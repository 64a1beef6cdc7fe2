"""Holding files: content-addressed, written atomically, verified when read."""
