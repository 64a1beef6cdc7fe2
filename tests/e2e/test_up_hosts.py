"""``ringrift up --hosts``: members are started over ssh, by a real server on this machine, and end with the command."""

import getpass
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from e2e.processes import PATIENCE_SECONDS, QUICK, Home, reached
from e2e.ssh_server import NEEDS_SSHD, SshServer, checkout
from e2e.test_up import batches_of, end, has_joined, members
from wait import until

pytestmark = NEEDS_SSHD
VARIANT = "hex8_2p"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "home", QUICK + "[wire]\nport = 0\n")
    yield made
    made.clear()


def test_hosts_of_a_file_join_over_ssh_and_end_with_the_command(
    home: Home, ssh_server: SshServer, tmp_path: Path
) -> None:
    """Through a tunnel, as the coordinator listens on loopback alone.  A host that is not ready is named and left out.

    Each plays under its own name and with the scopes of its row; when the command ends, they have left.
    """
    path = checkout(tmp_path / "far away")
    file = tmp_path / "hosts.yaml"
    common = f"ssh_host: 127.0.0.1, ssh_port: {ssh_server.port}, ssh_user: {getpass.getuser()}, ringrift_path: '{path}'"
    common += f", ssh_key: {tmp_path}/sshd/own"
    file.write_text(
        f"hosts:\n  far-1: {{{common}, role: gpu_selfplay, training_enabled: false}}\n"
        f"  far-2: {{{common}, is_ephemeral: true, training_enabled: true, vast_id: 77}}\n"
        f"  attic: {{{common}, status: offline}}\n  here: {{{common}, role: coordinator}}\n"
        "p2p_voters: [far-1]\nauto_sync: {interval: 60}\n"
    )
    process = home.start("up", "--hosts", str(file), "--ssh", ssh_server.ssh, "--variants", VARIANT)
    reached(process, lambda: home.has("SELECT 1 FROM log WHERE name = 'model.promoted'"))
    reached(process, lambda: batches_of(home) == {"far-1", "far-2"})
    records = {row["id"]: row for row in home.records("node")}
    keys = {row["node"]: row["scopes"] for row in home.records("node_key")}
    output = end(process)

    assert process.returncode == 0, output
    assert "host attic is not started: its status is offline" in output
    assert "host here is not started: its role is coordinator, which is this machine" in output
    assert "p2p_voters has no effect: the lock of the store decides who leads" in output
    assert "auto_sync has no effect yet" in output
    assert {name: row["profile"] for name, row in records.items() if name != "a"} == {
        "far-1": "selfplay",
        "far-2": "training_node",
    }
    assert records["far-2"]["ephemeral"]
    assert records["far-2"]["labels"] == {"provider": "vast"}
    assert "train" not in keys["far-1"]
    assert "train" in keys["far-2"]
    left = {row[0] for row in home.ask("SELECT json_extract(body, '$.node') FROM log WHERE name = 'node.left'")}
    assert left >= {"far-1", "far-2"}
    assert (path / "data" / "far-1" / "keys").is_dir()
    assert not (path / "data" / "far-1" / "coordination").exists()
    assert "rr-" not in ssh_server.log.read_text() + output


def test_a_host_whose_connection_breaks_leaves(home: Home, ssh_server: SshServer, tmp_path: Path) -> None:
    """The command says so, and the worker at the other end does not stay behind."""
    path = checkout(tmp_path / "far")
    file = tmp_path / "hosts.yaml"
    file.write_text(
        f"hosts:\n  far-1: {{ssh_host: 127.0.0.1, ssh_port: {ssh_server.port}, ssh_key: {tmp_path}/sshd/own, "
        f"ringrift_path: ~/{os.path.relpath(path, Path.home())}}}\n"
    )
    process = home.start("up", "--hosts", str(file), "--ssh", ssh_server.ssh)
    reached(process, lambda: has_joined(home, "far-1"))
    [client] = [p for p in psutil.Process(process.pid).children() if p.name() == "ssh"]
    client.send_signal(signal.SIGKILL)
    reached(process, lambda: home.has("SELECT 1 FROM log WHERE name = 'node.left'"))

    assert "far-1: has ended (signal 9) and is not started again" in end(process)
    until(lambda: members(home) == [], PATIENCE_SECONDS)
