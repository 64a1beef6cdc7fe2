"""A blob folder whose disk is not there says so: it is never empty, and nothing is written beside it."""

import errno
import hashlib
import os
import resource
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from contract.conftest import require
from contract.engines import run
from contract.packed import PackedBlobs
from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.blobs.ports import Blobs
from ringrift.kernel.errors import Busy, NodeAway, NoRoom
from ringrift.sim.blobs import MemoryBlobs
from wait import wait_until

DATA = b"some games"
NAME = hashlib.sha256(DATA).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


async def chunks() -> AsyncIterator[bytes]:
    """The bytes of a blob as they arrive."""
    yield b"other"


async def read(blobs: Blobs) -> bytes:
    """All bytes of the blob."""
    return b"".join([chunk async for chunk in blobs.read(NAME)])


VERBS: dict[str, Callable[[Blobs], Awaitable[object]]] = {
    "put": lambda blobs: blobs.put([b"other"]),
    "put again": lambda blobs: blobs.put([DATA]),
    "read": read,
    "write": lambda blobs: blobs.write(OTHER, chunks()),
    "have": lambda blobs: blobs.have([NAME]),
    "have nothing": lambda blobs: blobs.have([]),
    "page": lambda blobs: blobs.page("", 10),
    "verify": lambda blobs: blobs.verify([NAME]),
    "delete": lambda blobs: blobs.delete([NAME], 2e9),
    "drop_parts": lambda blobs: blobs.drop_parts(0.0),
}


class Disk:
    """The blobs of a node, and a way to take their disk away and bring it back."""

    def __init__(self, engine: str, root: Path) -> None:
        self._root, self._aside = root / "blobs", root / "aside"
        if engine == "memory":
            self.blobs: FolderBlobs | MemoryBlobs = MemoryBlobs("n1")
        else:
            self.blobs = (PackedBlobs if engine == "packed" else FolderBlobs)(self._root, "n1")
            run(self.blobs.open(is_new=True))

    def take_away(self, way: str = "moved") -> None:
        """Take the disk away; an empty mount point stays, or what is mounted is the disk of another node."""
        if isinstance(self.blobs, MemoryBlobs):
            self.blobs.away = True
            return
        self._root.rename(self._aside)
        if way != "moved":
            self._root.mkdir()
        if way == "swapped":
            Folder(self._root, "n2").mark()

    def bring_back(self) -> None:
        """Mount the disk again."""
        if isinstance(self.blobs, MemoryBlobs):
            self.blobs.away = False
            return
        for file in self._root.rglob("*"):
            file.unlink()
        if self._root.exists():
            self._root.rmdir()
        self._aside.rename(self._root)

    def strays(self) -> list[str]:
        """Files that were written where the disk was, but for a marker."""
        return [path.name for path in self._root.rglob("*") if path.is_file() and path.name != "node"]


@pytest.fixture(params=["folder", "packed", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """The disk of every engine in turn."""
    return Disk(request.param, tmp_path)


@pytest.mark.parametrize("way", ["moved", "emptied", "swapped"])
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_takes_an_absent_disk_for_an_empty_folder(disk: Disk, verb: str, way: str) -> None:
    """Every verb raises NodeAway with the node's id, writes nothing, and works again when the disk is back."""

    async def story() -> bytes:
        await disk.blobs.put([DATA])
        disk.take_away(way)
        with pytest.raises(NodeAway) as away:
            await VERBS[verb](disk.blobs)
        assert away.value.node == "n1"
        assert isinstance(disk.blobs, MemoryBlobs) or disk.strays() == []
        disk.bring_back()
        if verb != "delete":
            await VERBS[verb](disk.blobs)
        return await read(disk.blobs)

    assert run(story()) == DATA


def test_a_disk_that_goes_in_the_middle_of_a_write_stores_nothing(tmp_path: Path) -> None:
    """The name is never given in a folder that is not there any more."""
    disk = Disk("folder", tmp_path)

    async def cut_off() -> AsyncIterator[bytes]:
        yield b"oth"
        disk.take_away("emptied")
        yield b"er"

    async def story() -> frozenset[str]:
        with pytest.raises(NodeAway):
            await disk.blobs.write(OTHER, cut_off())
        assert disk.strays() == []
        disk.bring_back()
        return await disk.blobs.have([OTHER])

    assert run(story()) == frozenset()


def test_a_disk_that_goes_in_the_middle_of_a_look_is_away(tmp_path: Path) -> None:
    """An answer counts only if the disk is there before and after: blobs are not absent because it went meanwhile."""
    disk = Disk("folder", tmp_path)
    assert isinstance(disk.blobs, FolderBlobs)
    folder = disk.blobs.folder
    folder.put(DATA)

    class Unmounting(list[str]):
        """Names whose disk goes when they are read."""

        def __iter__(self) -> Iterator[str]:
            disk.take_away("emptied")
            return super().__iter__()

    with pytest.raises(NodeAway):
        folder.have(Unmounting([NAME]))
    disk.bring_back()
    assert folder.have([NAME]) == {NAME}


def test_the_marker_is_written_once(tmp_path: Path) -> None:
    """A new folder gets its node's id; a known one without it, or one of another node, is refused and left alone."""

    async def story() -> None:
        await FolderBlobs(tmp_path / "a", "n1").open(is_new=True)
        await FolderBlobs(tmp_path / "a", "n1").open(is_new=True)
        await FolderBlobs(tmp_path / "a", "n1").open(is_new=False)
        for place, node, is_new in (("a", "n2", True), ("a", "n2", False), ("b", "n1", False)):
            with pytest.raises(NodeAway, match=f"ringrift data adopt {node}"):
                await FolderBlobs(tmp_path / place, node).open(is_new=is_new)

    run(story())

    assert Folder(tmp_path / "a", "n1").read_marker() == "n1"
    assert not (tmp_path / "b").exists()


def test_a_relative_path_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of an earlier version says nothing about where the folder is, even if one is there by chance."""
    monkeypatch.chdir(tmp_path)
    Folder(tmp_path / "blobs", "n1").mark()

    with pytest.raises(NodeAway):
        run(FolderBlobs("blobs", "n1").have([NAME]))


@pytest.mark.parametrize("place", ["marker", "blob"])
def test_a_disk_that_hangs_is_away_and_blocks_no_more_than_its_own_threads(tmp_path: Path, place: str) -> None:
    """A call without an answer ends with NodeAway; until it ends by itself every other one does so at once."""
    disk = Disk("folder", tmp_path)
    assert isinstance(disk.blobs, FolderBlobs)
    folder = disk.blobs.folder

    async def story() -> bytes:
        await disk.blobs.put([DATA])
        path = folder.root / "node" if place == "marker" else folder.path(NAME)
        path.rename(tmp_path / "kept")
        os.mkfifo(path)  # opening it blocks until there is a writer: as on a share whose server is gone
        blobs = FolderBlobs(folder.root, "n1", hang_seconds_max=0.2)
        with pytest.raises(NodeAway, match=r"no answer for 0.2 s"):
            await read(blobs)
        for verb in VERBS.values():
            with pytest.raises(NodeAway):
                await verb(blobs)
        assert blobs._hanging == 1, "a disk that hangs is asked once"
        path.rename(tmp_path / "fifo")
        (tmp_path / "kept").rename(path)
        (tmp_path / "fifo").open("wb").close()  # a writer came: the call that hung ends, whatever it reads
        await wait_until(lambda: not blobs._hanging)
        return await read(blobs)

    assert run(story()) == DATA


def test_a_read_error_is_not_an_absent_blob(tmp_path: Path) -> None:
    """A disk that answers with an input/output error is away: the blob may well be on it."""
    disk = Disk("folder", tmp_path)
    assert isinstance(disk.blobs, FolderBlobs)
    path = disk.blobs.folder.path(NAME)
    path.parent.mkdir()
    path.symlink_to("/proc/self/mem")  # its first page cannot be read

    with pytest.raises(NodeAway, match=os.strerror(errno.EIO)):
        run(read(disk.blobs))


def test_a_process_without_a_descriptor_is_busy(tmp_path: Path) -> None:
    """A process that can open no file for a moment waits: that says nothing about the disk or the blob."""
    folder = Folder(tmp_path, "n1")
    folder.mark()
    folder.put(DATA)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        with pytest.raises(Busy, match="no file descriptor is left"):
            folder.put(DATA)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert folder.put(DATA) == NAME


class Mount:
    """A folder that is mounted where a node has its blobs."""

    def __init__(self, root: Path) -> None:
        self.disk, self.point = root / "disk", root / "point"
        for folder in (self.disk, self.point):
            folder.mkdir()

    def mount(self) -> None:
        """Mount it; the test is skipped where that is not possible."""
        require("mount", "--bind", str(self.disk), str(self.point))

    def unmount(self) -> None:
        """Leave the empty mount point."""
        subprocess.run(["umount", "--lazy", str(self.point)], check=True)

    def remount(self, mode: str) -> None:
        """Make it writable (rw) or read-only (ro)."""
        subprocess.run(["mount", "-o", f"remount,bind,{mode}", str(self.point)], check=True)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A mounted disk, unmounted at the end."""
    mount = Mount(tmp_path)
    mount.mount()
    yield mount
    subprocess.run(["umount", "--lazy", str(mount.point)], check=False)  # the test may have left it unmounted


@pytest.mark.parametrize("verb", VERBS)
def test_an_unmounted_disk_is_away_until_it_is_mounted_again(mount: Mount, verb: str) -> None:
    """A real mount point without its disk is an empty folder to every program but ours."""
    blobs = FolderBlobs(mount.point, "n1")

    async def story() -> bytes:
        await blobs.open(is_new=True)
        await blobs.put([DATA])
        mount.unmount()
        with pytest.raises(NodeAway):
            await VERBS[verb](blobs)
        assert list(mount.point.iterdir()) == []
        mount.mount()
        return await read(blobs)

    assert run(story()) == DATA


@pytest.mark.parametrize("verb", ["put", "write"])
def test_a_read_only_disk_is_waited_for_and_can_be_read(mount: Mount, verb: str) -> None:
    """Writing raises NoRoom, which is waited for, and says why; after the remount the same call succeeds."""
    blobs = FolderBlobs(mount.point, "n1")

    async def story() -> bytes:
        await blobs.open(is_new=True)
        await blobs.put([DATA])
        mount.remount("ro")
        with pytest.raises(NoRoom, match=r"the file system is read-only at .*: make it writable and try again"):
            await VERBS[verb](blobs)
        data = await read(blobs)
        mount.remount("rw")
        await VERBS[verb](blobs)
        return data

    assert run(story()) == DATA
