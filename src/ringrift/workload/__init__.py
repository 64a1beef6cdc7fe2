"""Workloads: the interface that a game implements, and the registry of installed games."""
