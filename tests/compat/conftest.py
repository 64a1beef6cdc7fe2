"""The engines of the store, for what tasks and the loop share."""

from contract.conftest import engine, on_file, on_lossy

__all__ = ["engine", "on_file", "on_lossy"]
