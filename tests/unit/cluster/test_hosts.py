"""The file of hosts: what each row means, what is refused, and what has no effect."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from ringrift.cli.members import ssh_command
from ringrift.cluster.hosts import Host, _parse_hosts, read_hosts
from ringrift.kernel.errors import SettingsError
from ringrift.wire.address import parse_address

EXAMPLE = Path(__file__).resolve().parents[3] / "config" / "distributed_hosts.yaml"


def host(**fields: Any) -> Host:
    """The host of a file with these fields."""
    [only], notes = _parse_hosts({"hosts": {"attic": {"ssh_host": "attic.lan", **fields}}})
    assert notes == []
    return only


def test_the_example_is_read_without_a_warning() -> None:
    """Every key that it has is known."""
    hosts, notes = read_hosts(str(EXAMPLE))

    assert notes == []
    assert [(row.name, row.profile, row.destination) for row in hosts] == [
        ("attic", "selfplay", "ringrift@attic.example.org"),
        ("rented", "ephemeral", "root@203.0.113.7"),
    ]
    assert hosts[1].labels() == {"provider": "vast"}


@pytest.mark.parametrize(
    ("fields", "profile", "scopes"),
    [
        ({}, "training_node", ("play", "train", "evaluate")),
        ({"training_enabled": False}, "selfplay", ("play", "evaluate")),
        ({"is_ephemeral": True}, "ephemeral", ("play", "evaluate")),
        ({"is_ephemeral": True, "training_enabled": True}, "training_node", ("play", "train", "evaluate")),
        ({"selfplay_enabled": False}, "training_node", ("train", "evaluate")),
    ],
)
def test_flags_decide_what_a_host_may_do(fields: dict[str, Any], profile: str, scopes: tuple[str, ...]) -> None:
    """By its profile, which says what it asks for, and by the scopes of its key, which say what it gets."""
    assert (host(**fields).profile, host(**fields).scopes()) == (profile, scopes)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"role": "coordinator"}, "its role is coordinator, which is this machine"),
        ({"p2p_enabled": False}, "p2p_enabled is false"),
        ({"status": "retired"}, "its status is retired"),
        ({"status": "Ready"}, ""),
        ({}, ""),
    ],
)
def test_a_host_that_is_not_to_be_started_says_why(fields: dict[str, Any], reason: str) -> None:
    """And one that is, nothing."""
    assert host(**fields).reason_to_skip() == reason


def test_keys_without_effect_are_told() -> None:
    """Unknown ones as misspelt, those of parts that are not there yet with what brings them."""
    tree = {"hosts": {"a": {"ssh_host": "h", "sshport": 3}}, "p2p_voters": [], "elo_sync": {}, "hots": 1}

    _, notes = _parse_hosts(tree)

    assert notes == [
        "p2p_voters has no effect: the lock of the store decides who leads, and there is no vote",
        "elo_sync has no effect yet; it comes with: copies between machines",
        "hots is unknown and has no effect: misspelt?",
        "hosts.a.sshport is unknown and has no effect: misspelt?",
    ]


@pytest.mark.parametrize(
    "tree",
    [
        None,
        [],
        {"hosts": []},
        {"hosts": {"a": 3}},
        {"hosts": {"a b": {"ssh_host": "h"}}},
        {"hosts": {"a": {}}},
        {"hosts": {"a": {"ssh_host": "-oProxyCommand=x"}}},
        {"hosts": {"a": {"ssh_host": "h", "ssh_user": "-l"}}},
        {"hosts": {"a": {"ssh_host": "h", "ssh_user": "x y"}}},
        {"hosts": {"a": {"ssh_host": "h; rm"}}},
        {"hosts": {"a": {"ssh_host": "h", "ssh_port": "many"}}},
        {"hosts": {"a": {"ssh_host": "h", "ssh_port": 70_000}}},
        {"hosts": {False: {"ssh_host": "h"}}},
    ],
)
def test_what_is_no_file_of_hosts_is_refused(tree: Any) -> None:
    """With an error that names the row, and nothing that could be an option of ssh or a command gets through."""
    with pytest.raises(SettingsError):
        _parse_hosts(tree)


@pytest.mark.parametrize("text", ["hosts: [", "hosts: {a: !!python/object/apply:os.getcwd []}", "\x00"])
def test_a_file_that_is_not_plain_yaml_is_refused(tmp_path: Path, text: str) -> None:
    """Also one that would run code when it is loaded."""
    file = tmp_path / "hosts.yaml"
    file.write_text(text)

    with pytest.raises(SettingsError, match="is not YAML"):
        read_hosts(str(file))
    with pytest.raises(SettingsError, match="No such file"):
        read_hosts(str(tmp_path / "none.yaml"))


def test_a_tunnel_ends_at_the_coordinator_and_other_hosts_dial_it_directly() -> None:
    """Nothing of a row is read by a shell here, and the destination is never an option."""
    row = host(ssh_port=2222, ssh_user="ann", ssh_key="~/k e y", ringrift_path="~/ring'rift $(x)")

    through = ssh_command(row, parse_address("http://127.0.0.1:8770"), ["ssh"], Random(1), tunnel=True)
    direct = ssh_command(row, parse_address("https://coordinator.lan:8770"), ["ssh"], Random(1), tunnel=False)

    [forward] = [word for word in through if word.endswith(":127.0.0.1:8770")]
    port = forward.split(":")[1]
    assert through[-3:-1] == ["--", "ann@attic.lan"]
    assert f"http://127.0.0.1:{port}" in through[-1]
    assert "-R" not in direct
    assert "https://coordinator.lan:8770" in direct[-1]
    assert str(Path("~/k e y").expanduser()) in direct
    assert "'~/ring'\"'\"'rift $(x)'" in direct[-1]
