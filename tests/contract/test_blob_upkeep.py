"""Blob folders look after themselves: nothing of dead writers stays, deletion spares what is stored again."""

import errno
import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from contract.engines import run
from ringrift.blobs.file_writer import Incoming
from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.blobs.locks import SHARED
from ringrift.blobs.parts import drop_parts
from ringrift.blobs.ports import StoredBlob
from ringrift.kernel.errors import Corrupt, NodeAway
from ringrift.sim.blobs import MemoryBlobs

DATA = b"some games"
NAME = hashlib.sha256(DATA).hexdigest()
LATER = 1e12
_WRITER = """
import sys
from ringrift.blobs.folder import Folder
from ringrift.kernel.failpoint import arm
arm("blobs.before_rename")
Folder(sys.argv[1]).put(b"never finished")
"""


def age(folder: Folder, blob: str, time: float) -> None:
    """Let *blob* look as if it was stored at *time*."""
    os.utime(folder.path(blob), (time, time))


def test_a_blob_that_is_there_is_flushed_before_its_name_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may not have flushed file and folder yet: whoever returns the name has done it itself."""
    folder, flushed, flush = Folder(tmp_path), list[str](), os.fsync
    folder.put(DATA)

    def note(descriptor: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    assert folder.put(DATA) == NAME
    assert flushed == [str(folder.path(NAME)), str(folder.path(NAME).parent)]


def test_parts_of_dead_writers_are_deleted_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    """A part is deleted when no process has it open for writing, whatever its name says about a process."""
    folder = Folder(tmp_path)
    dead = subprocess.run([sys.executable, "-c", _WRITER, str(tmp_path)], check=False)
    assert dead.returncode == 137
    assert len(list((tmp_path / "tmp").iterdir())) == 1

    with Incoming(folder, NAME) as part:
        assert drop_parts(folder, 0.0) == 1
        assert drop_parts(folder, 0.0) == 0
        part.write(DATA)
        part.commit()

    assert folder.open(NAME).read_bytes() == DATA
    assert list((tmp_path / "tmp").iterdir()) == []


def test_parts_at_rest_go_when_nobody_went_on_with_them(tmp_path: Path) -> None:
    """An old one that is open stays, and so does one to which something came lately."""

    async def story() -> list[str]:
        blobs = FolderBlobs(tmp_path)
        parts = {owner: blobs.part("ab" * 32, owner) for owner in ("old", "open", "new")}
        for owner, part in parts.items():
            await part.open()
            await part.append(b"the first half")
            os.utime(part.path, (1000.0, 1000.0) if owner != "new" else None)
        for owner in ("old", "new"):
            await parts[owner].close(keep=True)
        assert await blobs.drop_parts(2000.0) == 1
        rest = sorted(part.owner for part in await blobs.parts())
        await parts["open"].close(keep=False)
        return rest

    assert run(story()) == ["new", "open"]


def test_a_part_that_is_deleted_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making a part and locking it, another process may take it for one of a dead writer."""
    folder, lock, raced = Folder(tmp_path), fcntl.flock, list[int]()

    def race(descriptor: int, kind: int) -> None:
        if not raced and kind == fcntl.LOCK_EX:
            raced.append(1)
            raced.append(drop_parts(folder, 0.0))
        lock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", race)

    assert folder.put(DATA) == NAME
    assert raced == [1, 1]
    assert folder.open(NAME).read_bytes() == DATA


def test_deletion_spares_what_was_stored_again(tmp_path: Path) -> None:
    """A blob that is put again after it was found unneeded stays, and one that is not there is no error."""
    folder = Folder(tmp_path)
    names = [folder.put(data) for data in (b"old", b"again", b"writing")]
    for name in names:
        age(folder, name, 1000.0)
    folder.put(b"again")

    with folder.locked(SHARED):  # as a writer has it while it gives a file its name
        assert folder.delete(names[2:], before=2000.0) == names[2:]
    assert folder.delete([*names[:2], NAME], before=2000.0) == names[1:2]
    assert folder.have(names) == set(names[1:])
    assert folder.delete(names, LATER) == []
    assert folder.page("", 9) == []


def test_without_locks_blobs_are_written_and_none_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may have no locks: writing goes on, and nothing that could be in use is deleted."""

    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    folder = Folder(tmp_path)
    assert [folder.put(DATA), folder.put(DATA)] == [NAME, NAME]
    (tmp_path / "tmp" / "part").write_bytes(b"")

    assert folder.delete([NAME], LATER) == [NAME]
    assert drop_parts(folder, 0.0) == 0
    assert folder.have([NAME]) == {NAME}


def test_both_engines_delete_alike() -> None:
    """The simulated blobs spare what was stored again, too."""
    now = [1000.0]
    blobs = MemoryBlobs(now=lambda: now[0])

    async def story() -> list[list[StoredBlob] | list[str]]:
        old, again = await blobs.put([b"old", b"again"])
        now[0] = 3000.0
        await blobs.put([b"again"])
        assert await blobs.delete([old, again, NAME], 2000.0) == [again]
        return [list(await blobs.page("", 9)), [again]]

    [page, [again]] = run(story())

    assert page == [StoredBlob(blob=again, size=5, time=3000.0)]


def test_pages_follow_each_other_and_read_no_other_shelves(tmp_path: Path) -> None:
    """Paging returns every blob once, in order; a shelf before the place or behind the page is not opened."""
    folder = Folder(tmp_path)
    names = sorted(folder.put(str(number).encode()) for number in range(60))
    pages, place = [], ""
    while page := folder.page(place, 7):
        pages.append([stored.blob for stored in page])
        place = page[-1].blob
    assert [name for page in pages for name in page] == names
    assert [len(page) for page in pages] == [7] * 8 + [4]

    middle = next(i for i in range(20, 40) if names[i][:2] != names[i + 1][:2])
    for shelf in ("00", "ff"):  # a file in the place of a shelf: to list it would raise
        for path in sorted((tmp_path / shelf).glob("*")) if (tmp_path / shelf).is_dir() else ():
            path.unlink()
        if (tmp_path / shelf).is_dir():
            (tmp_path / shelf).rmdir()
        (tmp_path / shelf).write_bytes(b"")
    assert [stored.blob for stored in folder.page(names[middle], 3)] == names[middle + 1 : middle + 4]


def test_every_file_and_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask, folders have the mode 0700 and files 0600, damaged ones and the way there too."""
    before = os.umask(0)
    try:
        folder = Folder(tmp_path / "home" / "blobs")
        blob = folder.put(DATA)
        folder.path(blob).write_bytes(b"damaged")
        with pytest.raises(Corrupt):
            folder.open(blob)
        folder.put(DATA)
        folder.put(b"other")
    finally:
        os.umask(before)

    modes = {path.relative_to(tmp_path): path.stat().st_mode & 0o777 for path in (tmp_path / "home").rglob("*")}
    folders = {path for path in modes if (tmp_path / path).is_dir()}
    assert {modes[path] for path in folders} == {0o700}
    assert {modes[path] for path in modes.keys() - folders} == {0o600}
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_nothing_is_deleted_from_a_folder_that_is_away(tmp_path: Path) -> None:
    """Without the marker of its node a folder may be another disk: paging, deleting and cleaning raise NodeAway."""
    folder = Folder(tmp_path)
    blob = folder.put(DATA)
    (tmp_path / "tmp" / "part").write_bytes(b"")
    blobs = FolderBlobs(tmp_path, "n1")

    for call in (blobs.page("", 9), blobs.delete([blob], LATER), blobs.drop_parts(0.0), blobs.verify([blob])):
        with pytest.raises(NodeAway):
            run(call)
    assert folder.have([blob]) == {blob}
    assert (tmp_path / "tmp" / "part").exists()
