"""The commands that open or refuse a cluster, before anything runs: what they refuse, and in which words."""

import socket
from pathlib import Path
from typing import Any

import pytest

from ringrift.cli.main import call
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.wire_errors import InsecureBind


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RINGRIFT_NODE_ID", "a")
    return tmp_path / "home"


def test_beyond_this_machine_nothing_is_served_without_tls(home: Path) -> None:
    """It is refused before a store is made, and the message says how it can be done."""
    with pytest.raises(InsecureBind, match="ringrift certs"):
        call(["coordinator", "--bind", "0.0.0.0", "--port", "0"])

    assert not (home / "coordination").exists()


def test_a_port_that_is_taken_is_refused_before_a_store_is_made(home: Path) -> None:
    """With the reason, and another way."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError, match="choose another port"):
        call(["coordinator", "--port", str(taken.getsockname()[1])])

    assert not (home / "coordination").exists()


def test_a_node_with_a_coordinator_is_told_to_join(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would work on a store of its own instead."""
    monkeypatch.setenv("RINGRIFT_COORDINATOR_URL", "http://attic:8770")

    with pytest.raises(SettingsError, match="ringrift join"):
        call(["node"])
    assert not (home / "coordination").exists()


@pytest.mark.parametrize("words", [["--nodes", "-1"], ["--nodes", "65"], ["--hosts", "none.yaml"]])
def test_up_refuses_what_it_cannot_start(home: Path, words: list[str]) -> None:
    """Before it starts anything."""
    with pytest.raises(SettingsError):
        call(["up", *words])
    assert not home.exists()


def test_a_host_with_the_name_of_this_machine_is_refused(home: Path, tmp_path: Path, capsys: Any) -> None:
    """Two nodes would have one name; its role says that it is this one."""
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts: {a: {ssh_host: h}}\nauto_sync: {}\n")

    with pytest.raises(SettingsError, match="give it the role coordinator"):
        call(["up", "--hosts", str(file)])
    assert "auto_sync has no effect yet" in capsys.readouterr().out
