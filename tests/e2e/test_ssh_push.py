"""Files brought to a machine over ssh, and many small ones from it in one stream, by a real server."""

import asyncio
import fcntl
import hashlib
from collections.abc import AsyncIterator

import pytest

from e2e.far_folder import STREAMS, FarFolder, no_program_is_left, source_of
from e2e.ssh_server import NEEDS_SSHD
from ringrift.kernel.errors import Corrupt, NoRoom
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.transports.ssh import SshTransport

pytestmark = NEEDS_SSHD
ABSENT = "0" * 64


def blob_of(far: FarFolder, size: int) -> tuple[str, bytes]:
    data = far.rng.randbytes(size)
    return hashlib.sha256(data).hexdigest(), data


@pytest.mark.parametrize("kind", STREAMS)
def test_a_push_stores_a_verified_file_once(far: FarFolder, kind: type[SshTransport]) -> None:
    """What is there is not sent again, unless it is damaged; no part stays behind."""

    async def story() -> None:
        transport, sizes = kind(far.links), list[int]()
        blob, data = blob_of(far, 500_000)
        push = transport.push(far.endpoint, blob, len(data), source_of(data), sizes.append)
        assert (await push, sum(sizes)) == (len(data), len(data))
        assert far.folder.open(blob).read_bytes() == data
        assert await transport.push(far.endpoint, blob, len(data), source_of(data), sizes.append) == 0
        far.folder.path(blob).write_bytes(data[:-1])
        assert await transport.push(far.endpoint, blob, len(data), source_of(data), sizes.append) == len(data)
        assert far.folder.open(blob).read_bytes() == data
        assert not list((far.folder.root / "partial").iterdir())
        await no_program_is_left()

    asyncio.run(story())


def test_a_push_that_breaks_off_goes_on_where_it_was(far: FarFolder) -> None:
    """The source ends early, as if its node had been killed: nothing has the name, and only the rest is sent later."""

    async def story() -> None:
        transport = SshTransport(far.links)
        blob, data = blob_of(far, 300_000)
        for end in (100_000, 250_000):
            with pytest.raises(LinkBroken, match="the connection broke before the end"):
                await transport.push(far.endpoint, blob, len(data), source_of(data[:end]), lambda size: None)
            assert not far.folder.path(blob).exists()
        assert await transport.push(far.endpoint, blob, len(data), source_of(data), lambda size: None) == 50_000
        assert far.folder.open(blob).read_bytes() == data

    asyncio.run(story())


def test_a_receiver_that_is_killed_while_it_stores_is_sent_the_rest(far: FarFolder) -> None:
    """Its processes die in the middle: nothing has the name, and what was written counts."""

    async def story() -> None:
        transport = SshTransport(far.links)
        blob, data = blob_of(far, 20_000_000)

        async def source(offset: int) -> AsyncIterator[bytes]:
            for start in range(offset, len(data), 1_000_000):
                if start >= offset + 5_000_000:
                    far.kill_sessions()
                yield data[start : start + 1_000_000]

        with pytest.raises(LinkBroken):
            await transport.push(far.endpoint, blob, len(data), source, lambda size: None)
        assert not far.folder.path(blob).exists()
        sent = await transport.push(far.endpoint, blob, len(data), source_of(data), lambda size: None)
        assert 0 < sent < len(data)
        assert far.folder.open(blob).read_bytes() == data

    asyncio.run(story())


def test_a_push_of_other_bytes_stores_nothing(far: FarFolder) -> None:
    """Neither under the name nor as a part: the next push begins anew."""

    async def story() -> None:
        transport = SshTransport(far.links)
        blob, data = blob_of(far, 10_000)
        for bytes_sent in (data[:-1] + bytes([data[-1] ^ 1]), data + b"more"):
            with pytest.raises(Corrupt):
                await transport.push(far.endpoint, blob, len(data), source_of(bytes_sent), lambda size: None)
            assert not far.folder.path(blob).exists()
            assert not list((far.folder.root / "partial").iterdir())
        assert await transport.push(far.endpoint, blob, len(data), source_of(data), lambda size: None) == len(data)

    asyncio.run(story())


def test_a_full_disk_there_is_reported_as_one(far: FarFolder) -> None:
    """A limit of the server on the size of files stands for it."""
    far.keys.write_text(f'command="ulimit -f 100; eval \\"$SSH_ORIGINAL_COMMAND\\"" {far.keys.read_text()}')

    async def story() -> None:
        blob, data = blob_of(far, 300_000)
        with pytest.raises(NoRoom):
            await SshTransport(far.links).push(far.endpoint, blob, len(data), source_of(data), lambda size: None)
        assert not far.folder.path(blob).exists()

    asyncio.run(story())


def test_two_pushes_of_one_file_do_not_mix(far: FarFolder) -> None:
    """The second is refused while the first holds the part."""

    async def story() -> None:
        transport = SshTransport(far.links)
        blob, data = blob_of(far, 1000)
        part = far.folder.root / "partial" / f"{blob}.push"
        part.parent.mkdir()
        with part.open("ab") as first:
            fcntl.flock(first, fcntl.LOCK_EX)
            with pytest.raises(LinkBroken, match="another push"):
                await transport.push(far.endpoint, blob, len(data), source_of(data), lambda size: None)
        assert await transport.push(far.endpoint, blob, len(data), source_of(data), lambda size: None) == len(data)

    asyncio.run(story())


def test_a_push_that_is_not_taken_stalls(far: FarFolder) -> None:
    """The other side accepts the connection and reads nothing."""
    far.keys.write_text(f"command=\"printf '\\nringrift {ABSENT} 0\\n'; sleep 60\" {far.keys.read_text()}")

    async def story() -> None:
        async def endless(offset: int) -> AsyncIterator[bytes]:
            while True:
                yield bytes(1 << 20)

        transport = SshTransport(changed(far.links, silence_seconds_max=3.0))
        with pytest.raises(LinkBroken, match="took no bytes for 3 s"):
            await transport.push(far.endpoint, ABSENT, 1 << 40, endless, lambda size: None)
        await no_program_is_left()

    asyncio.run(story())


@pytest.mark.parametrize("kind", STREAMS)
def test_many_small_blobs_come_in_one_stream(far: FarFolder, kind: type[SshTransport]) -> None:
    """In the order in which they were asked for, over one connection; those that are not there are left out."""

    async def story() -> None:
        transport = kind(far.links)
        datas = dict(far.put(size) for size in (0, 1, 511, 512, 513, 5000, 1 << 20))
        names = [ABSENT, *datas]
        assert [pair async for pair in transport.read_batch(far.endpoint, names)] == list(datas.items())
        assert [pair async for pair in transport.read_batch(far.endpoint, [ABSENT])] == []
        await no_program_is_left()

    asyncio.run(story())


def test_a_batch_that_breaks_off_is_not_whole(far: FarFolder) -> None:
    """What came is of use; that more was to come is told."""

    async def story() -> None:
        datas = dict(far.put(10_000) for _ in range(10))
        pairs = list[tuple[str, bytes]]()

        async def read() -> None:
            async for pair in SshTransport(far.over("cut", 55_555)).read_batch(far.endpoint, list(datas)):
                pairs.append(pair)

        with pytest.raises(LinkBroken):
            await read()
        assert pairs == list(datas.items())[:5]

    asyncio.run(story())


def test_a_batch_has_only_what_was_asked_for_and_is_small(far: FarFolder) -> None:
    """Another file, or one that is too large for memory, ends the connection."""

    async def story() -> None:
        large, _ = far.put((1 << 20) + 1)
        with pytest.raises(LinkBroken, match="what was not asked for"):
            assert not [pair async for pair in SshTransport(far.links).read_batch(far.endpoint, [large])]
        blob, _ = far.put(10)
        far.keys.write_text(f'command="echo; echo ringrift batch ok; tar -cf - /etc/hosts" {far.keys.read_text()}')
        with pytest.raises(LinkBroken, match="what was not asked for"):
            assert not [pair async for pair in SshTransport(far.links).read_batch(far.endpoint, [blob])]

    asyncio.run(story())
