"""Copies between folders of one machine: completed from where they are, never from a disk that is not there."""

import asyncio
import hashlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.kernel.errors import NodeAway, NoRoom, NoRoute
from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.transports.local import LocalTransport
from ringrift.sync.transports.ports import Endpoint

SIZE = 9 * 1024 * 1024 + 1  # three steps


@pytest.fixture
def far(tmp_path: Path) -> Folder:
    """The folder of another node."""
    folder = Folder(tmp_path / "far", "far")
    folder.mark()
    return folder


def endpoint_of(folder: Folder) -> Endpoint:
    return Endpoint(node="far", transport="local", folder=str(folder.root))


def put(folder: Folder, size: int = SIZE) -> tuple[str, bytes]:
    data = Random(size).randbytes(size)
    return folder.put(data), data


@pytest.mark.parametrize("there", [0, 1, 4 * 1024 * 1024, SIZE])
def test_a_part_is_completed_from_where_it_is(far: Folder, tmp_path: Path, there: int) -> None:
    """Only what is missing is copied, and all of it is reported."""
    blob, data = put(far)
    part, sizes = tmp_path / "part", list[int]()
    part.write_bytes(data[:there])

    asyncio.run(LocalTransport().append(endpoint_of(far), blob, part, sizes.append))

    assert part.read_bytes() == data
    assert sum(sizes) == SIZE - there


def test_a_blob_in_a_pack_is_copied_without_its_neighbours(far: Folder, tmp_path: Path) -> None:
    """Whatever stands before and behind it in the pack."""
    datas = {hashlib.sha256(data).hexdigest(): data for data in (b"first", b"second" * 1000, b"third")}

    async def items() -> AsyncIterator[tuple[str, bytes]]:
        for pair in datas.items():
            yield pair

    async def story() -> None:
        await FolderBlobs(far.root, "far").write_pack(items())
        for blob, data in datas.items():
            (part := tmp_path / blob).write_bytes(data[:2])
            await LocalTransport().append(endpoint_of(far), blob, part, lambda size: None)
            assert part.read_bytes() == data

    asyncio.run(story())


def test_only_a_folder_that_is_there_can_say_that_a_blob_is_not(far: Folder, tmp_path: Path) -> None:
    """An empty mount point is away: the ledger keeps what it knows."""
    (part := tmp_path / "part").touch()
    copy, blob = LocalTransport(), put(far, 10)[0]

    with pytest.raises(NoRoute):
        asyncio.run(copy.append(endpoint_of(far), "0" * 64, part, lambda size: None))
    (far.root / "node").unlink()
    for name in (blob, "0" * 64):
        with pytest.raises(NodeAway):
            asyncio.run(copy.append(endpoint_of(far), name, part, lambda size: None))

    assert part.read_bytes() == b""


def test_a_part_that_cannot_be_written_is_told_by_its_own_name(far: Folder, tmp_path: Path) -> None:
    """It is our disk, not that of the other node."""
    blob, _ = put(far, 10)

    with pytest.raises(LinkBroken, match="part: No such file"):
        asyncio.run(LocalTransport().append(endpoint_of(far), blob, tmp_path / "part", lambda size: None))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    (folder := tmp_path / "small").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_here_is_no_room_and_the_part_stays(far: Folder, small_disk: Path) -> None:
    """Once there is room, the copy goes on."""
    blob, data = put(far)
    (part := small_disk / "part").touch()

    with pytest.raises(NoRoom, match=str(small_disk)):
        asyncio.run(LocalTransport().append(endpoint_of(far), blob, part, lambda size: None))

    assert data.startswith(part.read_bytes())


@pytest.fixture
def sharing_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system on which files can share blocks."""
    (folder := tmp_path / "disk").mkdir()
    image = tmp_path / "image"
    make = next((path for name in ("mkfs.xfs", "mkfs.btrfs") if (path := shutil.which(name))), None)
    if os.getuid() != 0 or make is None:
        pytest.skip("a file system that shares blocks needs root and mkfs.xfs or mkfs.btrfs")
    subprocess.run(["truncate", "-s", "320m", str(image)], check=True)
    subprocess.run([make, "-q", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True).returncode != 0:
        pytest.skip("loop devices cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_blocks_are_shared_where_the_file_system_can(sharing_disk: Path) -> None:
    """All bytes come in one step, and the copy takes no room."""
    folder, sizes = Folder(sharing_disk / "far", "far"), list[int]()
    folder.mark()
    blob, data = put(folder)
    (part := sharing_disk / "part").touch()
    free = shutil.disk_usage(sharing_disk).free

    asyncio.run(LocalTransport().append(endpoint_of(folder), blob, part, sizes.append))

    assert part.read_bytes() == data
    assert sizes == [SIZE]
    os.sync()
    assert free - shutil.disk_usage(sharing_disk).free < SIZE / 2
