"""The documented API of the earlier system, served on our parts: one table, one finder, one embedded node, adapters."""
