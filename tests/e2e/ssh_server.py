"""An ssh server of a test, on loopback, and a folder that another machine could have."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.processes import PATIENCE_SECONDS
from wait import until

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
NEEDS_SSHD = pytest.mark.skipif(SSHD is None or not shutil.which("ssh"), reason="sshd or ssh is not installed")


@dataclass(frozen=True)
class SshServer:
    """An ssh server of this test, and how to reach it."""

    port: int
    ssh: str
    log: Path


@pytest.fixture
def ssh_server(tmp_path: Path) -> Iterator[SshServer]:
    """An ssh server on loopback that accepts one key, made for this test."""
    folder = tmp_path / "sshd"
    folder.mkdir(mode=0o700)
    for name in ("host", "own"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, timeout=30)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/own.pub\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "client").write_text(f"Host *\n  UserKnownHostsFile {folder}/known\n  IdentitiesOnly yes\n")
    Path("/run/sshd").mkdir(exist_ok=True) if os.getuid() == 0 else None  # its own rule
    log = folder / "log"
    process = subprocess.Popen([str(SSHD), "-D", "-f", str(folder / "config"), "-E", str(log)])
    try:
        until(lambda: _listens(port), PATIENCE_SECONDS)
        yield SshServer(port, f"ssh -F {folder}/client", log)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def checkout(folder: Path) -> Path:
    """A folder that another machine could have: a venv with the command, and settings of its own."""
    program = folder / ".venv" / "bin" / "ringrift"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ringrift "$@"\n')
    program.chmod(0o755)
    return folder
