"""A hub: a machine with a folder and an ssh server, which gets second copies and gives them back."""

import getpass
from pathlib import Path

import pytest

from e2e.far_folder import FarFolder, no_program_is_left
from e2e.processes import PATIENCE_SECONDS, Home, reached
from e2e.ssh_server import NEEDS_SSHD
from ringrift.blobs.folder import FolderBlobs
from ringrift.cluster.hosts import Host
from ringrift.kernel.errors import NodeAway, NoRoute
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.sync.receipts import receipts_of
from ringrift.sync.transfer import Transfer
from ringrift.sync.transports.base64 import Base64Transport
from ringrift.sync.transports.endpoints import _KnownEndpoints
from ringrift.sync.transports.rsync import RsyncTransport
from ringrift.sync.transports.ssh import SshTransport
from ringrift.work.link_breakers import LinkBreakers
from unit.work.world import World, play

pytestmark = NEEDS_SSHD


def host_of(far: FarFolder) -> Host:
    return Host(
        name="far",
        role="hub",
        ssh_host="127.0.0.1",
        ssh_port=far.endpoint.port,
        ssh_key=far.endpoint.identity,
        ssh_host_key=far.endpoint.host_keys[0],
        storage_paths={"blobs": far.endpoint.folder},
    )


def transfer_of(world: World, far: FarFolder, **links: LinkSettings) -> tuple[Transfer, LinkBreakers]:
    """A transfer of node *here* that can reach the hub by three transports, over these links or good ones."""
    health = LinkBreakers(world.store, world.envelopes, world.clock, LinkSettings(failures_max=1))
    kinds = (SshTransport, RsyncTransport, Base64Transport)
    transports = [kind(links.get(kind.name, far.links)) for kind in kinds]
    endpoints = _KnownEndpoints(transports, [], [host_of(far)], health)

    async def reach(node: str) -> FolderBlobs:
        raise NodeAway(node)

    parts = {"clock": world.clock, "endpoints": endpoints, "limits": far.links}
    return Transfer("here", world.store, far.here, reach, world.envelopes, **parts), health


def test_a_file_goes_to_a_hub_and_comes_back_from_it(far: FarFolder, tmp_path: Path) -> None:
    """Each way with a receipt that names the transport; a blob that is there is not sent again."""

    async def story(world: World) -> None:
        transfer, _ = transfer_of(world, far)
        data = far.rng.randbytes(500_000)
        [blob] = await far.here.put([data])
        await world.hold(blob, "here")
        rooms = await transfer.hubs.rooms()
        assert (rooms["far"] or 0) > len(data)

        assert await transfer.copy(blob, "far") == len(data)
        assert far.folder.open(blob).read_bytes() == data
        assert await world.holders(blob) == ["far", "here"]

        far.here.folder.path(blob).unlink()
        await transfer.fetch([blob])
        assert far.here.folder.open(blob).read_bytes() == data
        async with world.store.read() as view:
            rows = {row.node: row for row in await receipts_of(view, blob)}
        assert {(row.source, row.node, row.transport) for row in rows.values()} == {
            ("here", "far", "ssh"),
            ("far", "here", "ssh"),
        }
        await no_program_is_left()

    play(tmp_path, story, seconds_max=PATIENCE_SECONDS)


def test_where_one_transport_fails_the_next_goes_on_at_the_same_byte(far: FarFolder, tmp_path: Path) -> None:
    """The plain stream is cut, rsync's as well, text comes through.  The breakers of the first two are open then."""

    async def story(world: World) -> None:
        cuts = {"ssh": far.over("cut", 100_000), "rsync": far.over("raw-cut", 150_000)}
        transfer, health = transfer_of(world, far, **cuts)
        blob, data = far.put(500_000)
        await world.hold(blob, "far")

        await transfer.fetch([blob])

        assert far.here.folder.open(blob).read_bytes() == data
        async with world.store.read() as view:
            [receipt] = await receipts_of(view, blob)
        assert receipt.transport == "base64"
        assert receipt.resumed >= 100_000
        assert [await health.allows("far", name) for name in ("ssh", "rsync", "base64")] == [False, False, True]
        assert await world.holders(blob) == ["far", "here"]

    play(tmp_path, story, seconds_max=PATIENCE_SECONDS)


def test_a_link_that_changes_bytes_does_not_cost_the_hub_its_place(far: FarFolder, tmp_path: Path) -> None:
    """Its copy is good by its own hash: the ledger keeps it, and the file comes as text."""

    async def story(world: World) -> None:
        bad = {"ssh": far.over("flip", 1000), "rsync": far.over("raw-cut", 0)}
        transfer, _ = transfer_of(world, far, **bad)
        blob, data = far.put(50_000)
        await world.hold(blob, "far")

        await transfer.fetch([blob])

        assert far.here.folder.open(blob).read_bytes() == data
        assert await world.holders(blob) == ["far", "here"]

    play(tmp_path, story, seconds_max=PATIENCE_SECONDS)


def test_a_copy_that_is_damaged_there_leaves_the_ledger(far: FarFolder, tmp_path: Path) -> None:
    """By the word of the hub itself, and only then."""

    async def story(world: World) -> None:
        transfer, _ = transfer_of(world, far)
        blob, data = far.put(50_000)
        await world.hold(blob, "far")
        far.folder.path(blob).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(NoRoute):
            await transfer.fetch([blob])
        assert await world.holders(blob) == []

    play(tmp_path, story, seconds_max=PATIENCE_SECONDS)


def test_a_run_with_a_hub_has_a_copy_of_its_champion_there(home: Home, far: FarFolder, tmp_path: Path) -> None:
    """Without anything of ours on the other machine but a folder with its name."""
    hosts = tmp_path / "hosts.yaml"
    row = f"role: hub, ssh_host: 127.0.0.1, ssh_port: {far.endpoint.port}, ssh_key: {far.endpoint.identity}"
    row += f", ssh_user: {getpass.getuser()}, ssh_host_key: '{far.endpoint.host_keys[0]}'"
    hosts.write_text(f"hosts:\n  far: {{{row}, storage_paths: {{blobs: '{far.endpoint.folder}'}}}}\n")
    # Three nodes of this machine play, and have the champion first.
    settings: dict[str, object] = {"links.hosts": hosts, "links.ssh": "ssh -F none", "replicas.copies_min": 4}
    settings |= {"work.lease_seconds": 20, "replicas.every_seconds": 2, "links.connect_seconds_max": 60}
    pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    process = home.start("run", "--variants", "hex8_2p", "--iterations", "1000", *pairs)
    reached(process, lambda: home.has("SELECT 1 FROM log WHERE name = 'model.promoted'"))
    champion = home.ask("SELECT json_extract(body, '$.model') FROM log WHERE name = 'model.promoted'")[0][0]
    reached(process, lambda: far.folder.path(champion).exists())
    reached(process, lambda: home.has("SELECT 1 FROM records WHERE kind = 'holding' AND id = ?", f"{champion}@far"))

    assert far.folder.open(champion)
