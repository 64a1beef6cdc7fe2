"""Carrying requests of nodes and programs to a coordinator, and its notes back to them."""
