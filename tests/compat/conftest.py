"""The engines of the store, for what tasks and the loop share, and another machine to send files to."""

from contract.conftest import engine, on_file, on_lossy
from e2e.far_folder import far
from e2e.ssh_server import ssh_server

__all__ = ["engine", "far", "on_file", "on_lossy", "ssh_server"]
