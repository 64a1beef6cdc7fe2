"""Blobs: content-addressed files, written atomically, verified when read."""
