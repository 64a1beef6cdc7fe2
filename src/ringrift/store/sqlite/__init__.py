"""The embedded engine: SQLite through apsw, WAL, synchronous=FULL, group commit."""
