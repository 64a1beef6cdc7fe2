"""Files over ssh, by a real server: whole, in parts, over links that break, and by nobody else's key."""

import asyncio
import hashlib
import os
import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from e2e.far_folder import STREAMS, FarFolder, no_program_is_left, source_of
from e2e.ssh_server import NEEDS_SSHD, SshServer
from ringrift.kernel.errors import Corrupt, InvalidId, NoRoute
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import LinkBroken, Stalled
from ringrift.sync.transports.base64 import Base64Transport
from ringrift.sync.transports.ssh import SshTransport

pytestmark = NEEDS_SSHD
CUTS = int(os.environ.get("RINGRIFT_CUTS", "12"))  # at random bytes
KILLS = int(os.environ.get("RINGRIFT_KILLS", "4"))  # of the sender, likewise
ABSENT = "0" * 64


@pytest.mark.parametrize("kind", STREAMS)
def test_a_blob_is_read_from_any_offset_and_hashed_where_it_is(far: FarFolder, kind: type[SshTransport]) -> None:
    """From the beginning, from the middle and at its end, in chunks of a bounded size; an empty blob as well."""

    async def story() -> None:
        transport = kind(far.links)
        blob, data = far.put(3_000_001)
        for offset in (0, 1, 1_234_567, len(data)):
            assert await far.read(transport, blob, offset) == data[offset:]
        empty, _ = far.put(0)
        assert await far.read(transport, empty) == b""
        assert await transport.is_good(far.endpoint, blob)
        far.folder.path(blob).write_bytes(data[:-1] + b"\0")
        assert not await transport.is_good(far.endpoint, blob)
        await no_program_is_left()

    asyncio.run(story())


def test_a_blob_in_a_pack_is_read_and_hashed(far: FarFolder) -> None:
    """Many small files lie in one, and the other side finds them there, whatever stands before and behind."""

    async def story() -> None:
        from ringrift.blobs.folder import FolderBlobs

        datas = {hashlib.sha256(data).hexdigest(): data for data in (far.rng.randbytes(n) for n in range(1, 2000, 97))}

        async def items():  # type: ignore[no-untyped-def]  # a pair of the port
            for blob, data in datas.items():
                yield blob, data

        await FolderBlobs(far.folder.root, "far").write_pack(items())
        transport = SshTransport(far.links)
        for blob in list(datas)[::7]:
            assert not far.folder.path(blob).exists()
            assert await far.read(transport, blob) == datas[blob]
            assert await far.read(transport, blob, 1) == datas[blob][1:]
            assert await transport.is_good(far.endpoint, blob)
        with pytest.raises(NoRoute):
            await far.read(transport, ABSENT)
        [pack] = (far.folder.root / "packs").glob("*.pack")
        pack.write_bytes(pack.read_bytes()[:-30] + bytes(30))
        with pytest.raises(LinkBroken):  # it may have the blob all the same
            await far.read(transport, ABSENT)

    asyncio.run(story())


def test_only_a_folder_that_is_there_can_say_that_a_blob_is_not(far: FarFolder) -> None:
    """A disk that is not mounted, or that of another node, is away: the ledger keeps what it knows."""

    async def story() -> None:
        transport = SshTransport(far.links)
        blob, data = far.put(1000)
        with pytest.raises(NoRoute):
            await far.read(transport, ABSENT)
        with pytest.raises(NoRoute):
            await transport.is_good(far.endpoint, ABSENT)
        for marker in ("other\n", None):
            (far.folder.root / "node").unlink()
            if marker is not None:
                (far.folder.root / "node").write_text(marker)
            for call in (far.read(transport, blob), far.read(transport, ABSENT), transport.is_good(far.endpoint, blob)):
                with pytest.raises(LinkBroken, match="its blob folder is not there"):
                    await call
            with pytest.raises(LinkBroken, match="its blob folder is not there"):
                await transport.push(far.endpoint, ABSENT, 1, source_of(b"x"), lambda size: None)
            (far.folder.root / "node").write_text("far\n")
        assert await far.read(transport, blob) == data

    asyncio.run(story())


@pytest.mark.parametrize("kind", STREAMS)
def test_what_a_login_shell_prints_is_not_taken_for_the_file(far: FarFolder, kind: type[SshTransport]) -> None:
    """Before it, with and without an end of line, and behind it."""
    command = "printf 'Welcome!\\nringrift x 5\\nno end of line'; eval \\\"$SSH_ORIGINAL_COMMAND\\\"; echo goodbye"
    far.keys.write_text(f'command="{command}" {far.keys.read_text()}')

    async def story() -> None:
        transport = kind(far.links)
        blob, data = far.put(200_000)
        assert await far.read(transport, blob) == data
        new = far.rng.randbytes(100_000)
        name = hashlib.sha256(new).hexdigest()
        assert await transport.push(far.endpoint, name, len(new), source_of(new), lambda size: None) == len(new)
        assert far.folder.open(name).read_bytes() == new

    asyncio.run(story())


def test_a_link_that_is_cut_at_random_bytes_goes_on_where_it_was(far: FarFolder) -> None:
    """No reader ever sees a part of a file, no byte is sent twice, and once the link holds, the file is there."""

    async def story() -> None:
        blob, data = far.put(CUTS * 150_000)
        sizes = []
        for _ in range(CUTS):
            cut = far.rng.randrange(150_000)
            with pytest.raises(LinkBroken, match="the connection broke"):
                await far.receive(SshTransport(far.over("cut", cut)), blob)
            sizes.append(cut)
            assert not await far.here.have([blob])
        assert await far.receive(SshTransport(far.links), blob) == sum(sizes)
        assert far.here.folder.open(blob).read_bytes() == data
        await no_program_is_left()

    asyncio.run(story())


def test_a_sender_that_is_killed_at_random_bytes_is_resumed(far: FarFolder) -> None:
    """The processes of the other side die in the middle; what has arrived is of use."""

    async def story() -> None:
        blob, data = far.put((KILLS + 4) * 4_000_000)
        part = far.here.part(blob, "transfer")
        offset = await part.open()

        async def receive(stop: int) -> None:
            nonlocal offset
            async for chunk in SshTransport(far.links).read(far.endpoint, blob, offset):
                await part.append(chunk)
                offset += len(chunk)
                if offset > stop:
                    far.kill_sessions()
                    stop = len(data)

        for _ in range(KILLS):
            with pytest.raises(LinkBroken):
                await receive(offset + far.rng.randrange(1_000_000))
            assert not await far.here.have([blob])
        await receive(len(data))
        await part.commit()
        await part.close(keep=True)
        assert far.here.folder.open(blob).read_bytes() == data

    asyncio.run(story())


def test_a_stream_that_ends_early_is_not_a_file(far: FarFolder) -> None:
    """Though the program reports success: the size was announced before."""

    async def story() -> None:
        blob, _ = far.put(100_000)
        with pytest.raises(LinkBroken, match="before the end of the file"):
            await far.receive(SshTransport(far.over("truncate", 99_999)), blob)
        assert not await far.here.have([blob])

    asyncio.run(story())


def test_a_flipped_byte_is_the_fault_of_the_link_and_not_of_the_copy(far: FarFolder) -> None:
    """Nothing gets the name; the copy there is good by its own hash, and another try brings it."""

    async def story() -> None:
        blob, data = far.put(300_000)
        with pytest.raises(Corrupt):
            await far.receive(SshTransport(far.over("flip", 123_456)), blob)
        assert not await far.here.have([blob])
        assert await SshTransport(far.links).is_good(far.endpoint, blob)
        assert await far.receive(SshTransport(far.links), blob) == 0
        assert far.here.folder.open(blob).read_bytes() == data

    asyncio.run(story())


def test_a_link_that_changes_bytes_carries_files_as_text(far: FarFolder) -> None:
    """Such as a terminal between, which turns each line end into two bytes."""

    async def story() -> None:
        blob, data = far.put(300_000)
        with pytest.raises((Corrupt, LinkBroken)):
            await far.receive(SshTransport(far.over("text", 0)), blob)
        assert await far.receive(Base64Transport(far.over("text", 0)), blob) == 0
        assert far.here.folder.open(blob).read_bytes() == data
        other, _ = far.put(300_000)
        with pytest.raises((Corrupt, LinkBroken)):
            await far.receive(Base64Transport(far.over("flip", 5000)), other)
        assert not await far.here.have([other])

    asyncio.run(story())


def test_a_link_without_bytes_is_ended_and_leaves_no_process(far: FarFolder) -> None:
    """The part stays, and the next try goes on behind it."""

    async def story() -> None:
        blob, data = far.put(200_000)
        links = changed(far.over("hold", 100_000), silence_seconds_max=10.0)
        slow = FarFolder(far.folder, far.here, far.endpoint, links, far.keys)
        with pytest.raises(Stalled, match="no bytes for 10 s"):
            await slow.receive(SshTransport(links), blob)
        await no_program_is_left()
        assert await far.receive(SshTransport(far.links), blob) == 100_000
        assert far.here.folder.open(blob).read_bytes() == data

    asyncio.run(story())


def test_a_reader_that_loses_interest_ends_the_connection(far: FarFolder) -> None:
    """Also where the sender still has much to send."""

    async def story() -> None:
        blob, data = far.put(20_000_000)
        async with aclosing(SshTransport(far.links).read(far.endpoint, blob, 0)) as chunks:
            assert data.startswith(await anext(chunks))
        await no_program_is_left()

    asyncio.run(story())


def test_a_server_that_stops_answering_is_left(far: FarFolder, ssh_server: SshServer) -> None:
    """Its process is stopped, as by a machine that hangs: no answer comes, and the transfer ends in time."""

    async def story() -> None:
        blob, _ = far.put(1000)
        transport = SshTransport(LinkSettings(ssh=far.links.ssh, connect_seconds_max=2.0))
        try:
            far.server().send_signal(signal.SIGSTOP)
            with pytest.raises(LinkBroken, match=r"127\.0\.0\.1: .*timed out"):
                await far.read(transport, blob)
        finally:
            far.server().send_signal(signal.SIGCONT)
        await no_program_is_left()

    asyncio.run(story())


def test_a_host_with_another_key_gets_no_word(far: FarFolder, tmp_path: Path) -> None:
    """Pinned: only that key, whatever the user's known_hosts has.  Without pins: only what known_hosts has."""
    [key] = far.endpoint.host_keys
    other = f"ssh-ed25519 {'A' * 68}"
    theirs = (tmp_path / "sshd" / "host.pub").read_text()
    trusting = changed(far.links, ssh=f"ssh -F {tmp_path}/sshd/client")  # its known_hosts has the right key

    async def story() -> None:
        blob, data = far.put(1000)
        assert key in theirs
        with pytest.raises(LinkBroken, match="Host key verification failed"):
            await far.at(host_keys=(other,)).read(SshTransport(trusting), blob)
        assert await far.at(host_keys=(other, key)).read(SshTransport(far.links), blob) == data
        assert await far.at(host_keys=()).read(SshTransport(trusting), blob) == data
        stranger = changed(far.links, ssh="ssh -F none -o UserKnownHostsFile=/dev/null")
        with pytest.raises(LinkBroken, match="Host key verification failed"):
            await far.at(host_keys=()).read(SshTransport(stranger), blob)

    asyncio.run(story())


def test_addresses_are_tried_in_order_and_the_one_that_answered_is_first_next_time(far: FarFolder) -> None:
    """A host that has two is reached by the second where the first is closed, under the same pinned key."""

    async def story() -> None:
        transport, two = SshTransport(far.links), far.at(addresses=("127.0.0.2", "127.0.0.1"))
        blob, data = far.put(1000)
        assert await two.read(transport, blob) == data
        assert transport.ordered(two.endpoint) == ["127.0.0.1", "127.0.0.2"]
        with pytest.raises(LinkBroken, match=r"127\.0\.0\.2: .*refused; 127\.0\.0\.3: .*refused"):
            await far.at(addresses=("127.0.0.2", "127.0.0.3")).read(transport, blob)
        with pytest.raises(LinkBroken, match="no address is known"):
            await far.at(addresses=()).read(transport, blob)

    asyncio.run(story())


@pytest.mark.parametrize(
    "changes",
    [
        {"addresses": ("-oProxyCommand=touch pwned",)},
        {"addresses": ("127.0.0.1 -oProxyCommand=x",)},
        {"addresses": ("-l@127.0.0.1",)},
        {"addresses": ("127.0.0.1;touch pwned",)},
        {"folder": "-rf"},
        {"folder": "relative/path"},
        {"folder": "/a\nb"},
        {"identity": "-F/etc/passwd"},
        {"identity": "/a\" -o ProxyCommand='touch pwned"},
        {"host_keys": ("ssh-ed25519 AAAA; touch pwned",)},
        {"host_keys": (f"ssh-ed25519 {'A' * 68}\n* ssh-rsa {'A' * 68}",)},
        {"node": "../far"},
        {"port": 70_000},
    ],
)
def test_words_that_could_be_options_or_commands_are_refused(far: FarFolder, changes: dict[str, object]) -> None:
    """Before anything is started."""

    async def story() -> None:
        with pytest.raises(InvalidId):
            await far.at(**changes).read(SshTransport(LinkSettings(ssh="false")), ABSENT)

    asyncio.run(story())


def test_a_folder_with_any_name_is_only_a_name(far: FarFolder, tmp_path: Path) -> None:
    """Spaces, quotes and what a shell would run."""

    async def story() -> None:
        root = tmp_path / "a 'b' \"c\" $(id) `id`; exit 3 & * %s"
        far.folder.root.rename(root)
        moved = far.at(folder=str(root))
        blob = hashlib.sha256(b"data").hexdigest()
        assert await SshTransport(far.links).push(moved.endpoint, blob, 4, source_of(b"data"), lambda size: None) == 4
        assert await moved.read(SshTransport(far.links), blob) == b"data"
        assert [pair async for pair in SshTransport(far.links).read_batch(moved.endpoint, [blob])] == [(blob, b"data")]

    asyncio.run(story())
