"""The file of hosts: what each row means, what is refused, and what has no effect."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ringrift.cli.members import ssh_command
from ringrift.cluster.hosts import Host, _parse_hosts, find_destination, read_hosts
from ringrift.kernel.errors import SettingsError
from ringrift.sync.transports.endpoints import _host_endpoints
from ringrift.sync.transports.ssh_command import check_endpoint
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
        ("rented", "ephemeral", "root@100.64.0.7"),
        ("vault", "training_node", "vault.example.org"),
    ]
    assert [row.name for row in hosts if row.is_hub] == ["vault"]
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


KEY = f"ssh-ed25519 {'A' * 68}"


def test_a_private_network_comes_before_an_open_port() -> None:
    """Each address once, with the user."""
    both = host(tailscale_ip="100.64.0.7", ssh_user="ann")

    assert both.addresses == ("ann@100.64.0.7", "ann@attic.lan")
    assert both.destination == "ann@100.64.0.7"
    assert host().addresses == ("attic.lan",)
    assert host(tailscale_ip="attic.lan").addresses == ("attic.lan",)


def test_a_server_that_does_not_answer_on_the_first_address_is_reached_on_the_second() -> None:
    """The last one is taken without a question: ssh may know more about it than we do."""

    async def story() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            near = host(tailscale_ip="127.0.0.1", ssh_port=port)
            assert await find_destination(near) == "127.0.0.1"
            assert await find_destination(host(tailscale_ip="127.0.0.2", ssh_port=port)) == "attic.lan"
            assert await find_destination(host(tailscale_ip="nowhere.invalid", ssh_port=port)) == "attic.lan"

    asyncio.run(story())


def test_pinned_keys_lose_their_comments_and_may_be_several() -> None:
    """As a person copies them from a file."""
    assert host().host_keys == ()
    assert host(ssh_host_key=f"{KEY} root@attic").host_keys == (KEY,)
    assert host(ssh_host_key=[KEY, f"ssh-rsa {'B' * 40}== x"]).host_keys == (KEY, f"ssh-rsa {'B' * 40}==")


@pytest.mark.parametrize(
    ("fields", "folder"),
    [
        ({}, "~/./data/attic/blobs"),
        ({"ringrift_path": "~/ringrift/"}, "~/ringrift/data/attic/blobs"),
        ({"ringrift_path": "code/ringrift"}, "~/code/ringrift/data/attic/blobs"),
        ({"ringrift_path": "/srv/ringrift"}, "/srv/ringrift/data/attic/blobs"),
        ({"ringrift_path": "/srv", "storage_paths": {"blobs": "/mnt/big/blobs"}}, "/mnt/big/blobs"),
    ],
)
def test_the_files_of_a_host_are_where_its_worker_has_them(fields: dict[str, Any], folder: str) -> None:
    """A path that is relative is so to the home of its user."""
    assert host(**fields).blob_folder == folder


def test_a_hub_is_not_started_and_reached_by_three_transports() -> None:
    """It holds copies; a host behind a wall that lets nobody in is reached by none."""
    hub = host(role="hub", storage_paths={"blobs": "/mnt/blobs"}, ssh_key="~/.ssh/k", ssh_port=2222, ssh_host_key=KEY)

    assert hub.is_hub
    assert hub.reason_to_skip() == "its role is hub: it holds copies and runs nothing"
    assert [way.transport for way in _host_endpoints(hub)] == ["ssh", "rsync", "base64"]
    [first, *_] = _host_endpoints(hub)
    assert (first.addresses, first.folder, first.port) == (("attic.lan",), "/mnt/blobs", 2222)
    assert (first.identity, first.host_keys, first.node) == ("~/.ssh/k", (KEY,), "attic")
    check_endpoint(first)
    assert _host_endpoints(host(nat_blocked=True)) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"tailscale_ip": "-oProxyCommand=x"},
        {"tailscale_ip": "a b"},
        {"ssh_host_key": "ssh-ed25519"},
        {"ssh_host_key": f"ssh-ed25519 {'A' * 68};id"},
        {"ssh_host_key": [KEY, "x"]},
        {"storage_paths": {"blobs": "relative"}},
        {"storage_paths": {"blobs": "/a\nb"}},
        {"ssh_key": "-F/etc/passwd"},
        {"ssh_key": "/a'b"},
        {"ssh_key": "/a%h"},
    ],
)
def test_words_that_a_command_line_could_misread_are_refused(fields: dict[str, Any]) -> None:
    """With the name of the row."""
    with pytest.raises(SettingsError, match=r"hosts\.attic\."):
        host(**fields)


def test_a_member_is_reached_where_it_answers_and_only_by_its_key() -> None:
    """The chosen address instead of the first, and the pins of its row."""
    row = host(tailscale_ip="100.64.0.7", ssh_host_key=KEY)
    address = parse_address("http://127.0.0.1:8770")

    command = ssh_command(row, address, ["ssh"], Random(1), tunnel=True, destination="attic.lan")

    assert command[command.index("--") + 1] == "attic.lan"
    assert "HostKeyAlias=attic" in command
    assert any(KEY in word and word.startswith("KnownHostsCommand=") for word in command)
    plain = ssh_command(host(), address, ["ssh"], Random(1), tunnel=True)
    assert not [word for word in plain if "HostKey" in word or "KnownHosts" in word]
