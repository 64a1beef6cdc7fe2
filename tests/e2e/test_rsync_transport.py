"""Files by rsync over ssh, with the real programs: parts are completed, and breaks leave a beginning."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from e2e.far_folder import FarFolder, no_program_is_left
from e2e.ssh_server import NEEDS_SSHD
from ringrift.blobs.folder import FolderBlobs
from ringrift.kernel.errors import InvalidId, NoRoute
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.wire_errors import LinkBroken, Stalled
from ringrift.sync.stall import watch_append
from ringrift.sync.transports.rsync import RsyncTransport

pytestmark = [NEEDS_SSHD, pytest.mark.skipif(not shutil.which("rsync"), reason="rsync is not installed")]
ABSENT = "0" * 64
CUTS = 5  # at random bytes


@pytest.mark.parametrize("there", [0, 1, 1_000_000, 3_000_000])
def test_a_part_is_completed_from_where_it_is(far: FarFolder, tmp_path: Path, there: int) -> None:
    """Only what is missing is sent, and all of it is reported."""
    blob, data = far.put(3_000_000)
    part, sizes = tmp_path / "part", list[int]()
    part.write_bytes(data[:there])

    links = far.over("raw-cut", len(data) - there + 100_000)  # no more goes over this link
    asyncio.run(RsyncTransport(links).append(far.endpoint, blob, part, sizes.append))

    assert part.read_bytes() == data
    assert sum(sizes) == len(data) - there


def test_a_link_that_is_cut_leaves_a_beginning(far: FarFolder, tmp_path: Path) -> None:
    """At random bytes, again and again; once the link holds, the rest comes."""

    async def story() -> None:
        blob, data = far.put(4_000_000)
        (part := tmp_path / "part").touch()
        for _ in range(CUTS):
            size, cut = part.stat().st_size, far.rng.randrange(100_000, 600_000)
            with pytest.raises(LinkBroken):
                await RsyncTransport(far.over("raw-cut", cut)).append(far.endpoint, blob, part, lambda size: None)
            assert data.startswith(part.read_bytes())
            assert size <= part.stat().st_size < len(data)
        await RsyncTransport(far.links).append(far.endpoint, blob, part, lambda size: None)
        assert part.read_bytes() == data
        await no_program_is_left()

    asyncio.run(story())


def test_only_a_folder_that_is_there_can_say_that_a_blob_is_not(far: FarFolder, tmp_path: Path) -> None:
    """A disk that is not mounted is away, a file inside a pack is read by another transport."""
    (part := tmp_path / "part").touch()
    packed = hashlib.sha256(b"packed").hexdigest()

    async def items() -> AsyncIterator[tuple[str, bytes]]:
        yield packed, b"packed"

    async def story() -> None:
        transport = RsyncTransport(far.links)
        blob, _ = far.put(10)
        with pytest.raises(NoRoute):
            await transport.append(far.endpoint, ABSENT, part, lambda size: None)
        await FolderBlobs(far.folder.root, "far").write_pack(items())
        with pytest.raises(LinkBroken, match="in a pack"):
            await transport.append(far.endpoint, packed, part, lambda size: None)
        (far.folder.root / "node").write_text("other\n")
        for name in (blob, ABSENT):
            with pytest.raises(LinkBroken, match="its blob folder is not there"):
                await transport.append(far.endpoint, name, part, lambda size: None)
        assert part.read_bytes() == b""

    asyncio.run(story())


def test_a_link_without_bytes_is_ended(far: FarFolder, tmp_path: Path) -> None:
    """Both programs are gone before the error is raised, and nothing writes to the part any more."""

    async def story() -> None:
        blob, data = far.put(3_000_000)
        (part := tmp_path / "part").touch()
        links = LinkSettings(silence_seconds_max=3.0)
        patient = far.over("raw-hold", 500_000)  # rsync itself would wait for longer
        with pytest.raises(Stalled, match="no bytes for 3 s"):
            await watch_append(RsyncTransport(patient), far.endpoint, blob, part, lambda size: None, links)
        await no_program_is_left()
        assert part.stat().st_size < len(data)
        assert data.startswith(part.read_bytes())

    asyncio.run(story())


def test_names_are_only_names_and_hosts_have_to_show_their_key(far: FarFolder, tmp_path: Path) -> None:
    """A folder that a shell would run, an address that rsync would take for an option, a key that is not pinned."""
    blob, data = far.put(1000)
    root = tmp_path / "a 'b' \"c\" $(id) `id`; exit 3 & * %s"
    far.folder.root.rename(root)
    (part := tmp_path / "part").touch()

    async def story() -> None:
        transport = RsyncTransport(far.links)
        await transport.append(far.at(folder=str(root)).endpoint, blob, part, lambda size: None)
        assert part.read_bytes() == data
        for changes in ({"addresses": ("-e touch",)}, {"addresses": ("a:b c",)}, {"identity": "/a' 'b"}):
            with pytest.raises(InvalidId):
                await transport.append(msgspec.structs.replace(far.endpoint, **changes), blob, part, lambda size: None)
        stranger = far.at(host_keys=(f"ssh-ed25519 {'A' * 68}",)).endpoint
        with pytest.raises(LinkBroken, match=r"127\.0\.0\.1: "):
            await transport.append(stranger, blob, part, lambda size: None)
        two = far.at(addresses=("127.0.0.2", "127.0.0.1"), folder=str(root)).endpoint
        part.write_bytes(b"")
        await transport.append(two, blob, part, lambda size: None)
        assert part.read_bytes() == data

    asyncio.run(story())
