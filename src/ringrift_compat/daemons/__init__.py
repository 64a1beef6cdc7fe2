"""The documented daemons: their types, their manager, and users' own daemons."""
