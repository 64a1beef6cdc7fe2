"""The documented coordinators: bootstrap, bases for users' own, configuration and snapshots."""
