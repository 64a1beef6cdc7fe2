"""Packs hold many small blobs in one file; whoever reads, lists, renews or deletes a blob does not notice."""

import hashlib
import math
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from contract.engines import run
from contract.packed import PACK_BYTES, PackedBlobs, content, damage_packed, files, fill, is_sound, pack_all, packs
from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.blobs.pack_writer import consolidate
from ringrift.kernel.errors import Corrupt, NoRoute
from ringrift.kernel.value import changed
from wait import until

OLD, LATER = 1000.0, 1e12
_CONSOLIDATE = """
import math, sys
from ringrift.blobs.folder import Folder
from ringrift.blobs.pack_writer import consolidate
from ringrift.kernel.failpoint import arm
arm(sys.argv[2])
consolidate(Folder(sys.argv[1]), sys.argv[3:], math.inf, 1 << 26)
"""


def test_many_files_become_one_and_nothing_else_changes(tmp_path: Path) -> None:
    """Names, sizes, times and bytes stay; another process that was there before sees them without a restart."""
    folder, other = Folder(tmp_path), Folder(tmp_path)
    names = fill(folder, 20)
    pages = [changed(row, is_packed=True) for row in other.page("", 200)]
    before = (pages, other.have(names), other.summarize())

    assert consolidate(folder, names, LATER, PACK_BYTES) == 20

    assert (files(folder), len(packs(folder))) == ([], 1)
    assert (other.page("", 200), other.have(names), other.summarize()) == before
    assert [stored.time for stored in other.page("", 200)] == [OLD] * 20
    assert is_sound(other, names)
    assert [row.blob for row in other.page(names[14][:-1], 2)] == names[14:16]


def test_what_was_stored_or_opened_lately_stays_a_file(tmp_path: Path) -> None:
    """Whoever asked for the path of a file may open it in a while, however old the file is."""
    folder = Folder(tmp_path)
    stored, opened, resting = fill(folder, 3)
    before = max(folder.path(name).stat().st_ctime for name in (stored, opened, resting)) + 1e-4
    path = folder.open(opened)
    until(lambda: folder.renew(stored) and folder.open(opened).stat().st_ctime >= before)
    content(folder, resting)

    assert consolidate(folder, [stored, opened, resting], before, PACK_BYTES) == 1

    assert files(folder) == sorted([stored, opened])
    assert path.stat().st_mtime == OLD
    assert folder.have([resting]) == {resting}


def test_a_path_of_a_packed_blob_is_a_file_again(tmp_path: Path) -> None:
    """It has the time at which it was stored, so that it is not kept for longer, and is not packed again at once."""
    folder = Folder(tmp_path)
    names = fill(folder, 3)
    before = folder.path(names[0]).stat().st_ctime
    pack_all(folder)

    path = folder.open(names[1])

    assert hashlib.sha256(path.read_bytes()).hexdigest() == names[1]
    assert path.stat().st_mtime == OLD
    assert consolidate(folder, names, before, PACK_BYTES) == 0
    assert [row.blob for row in folder.page("", 9)] == names


@pytest.mark.parametrize("verb", ["renew", "put"])
def test_a_packed_blob_that_is_stored_again_is_new(tmp_path: Path, verb: str) -> None:
    """It counts as stored now, in and out of a pack: it is not deleted as an old one."""
    folder = Folder(tmp_path)
    names = fill(folder, 4)
    pack_all(folder)

    again = content(folder, names[2])
    assert folder.put(again) == names[2] if verb == "put" else folder.renew(names[2])

    assert folder.delete(names, OLD + 1) == [names[2]]
    pack_all(folder)
    assert files(folder) == []
    assert folder.delete(names, OLD + 1) == [names[2]]
    assert folder.have(names) == {names[2]}


def test_deletion_takes_blobs_out_of_packs_for_every_process(tmp_path: Path) -> None:
    """What is deleted is absent at once for all, the rest stays, and the bytes go when little is left of a pack."""
    folder, other = Folder(tmp_path), Folder(tmp_path)
    names = fill(folder, 15)
    pack_all(folder)
    assert other.have(names) == set(names)
    size = packs(folder)[0].stat().st_size

    for first in range(0, 12, 3):
        assert folder.delete(names[first : first + 3], LATER) == []
        assert other.have(names) == set(names[first + 3 :])
    with pytest.raises(NoRoute):
        other.open(names[0])
    consolidate(folder, [], OLD, PACK_BYTES)

    [pack] = packs(folder)
    assert pack.stat().st_size < 0.3 * size
    assert list(tmp_path.glob("packs/*.gone")) == []
    assert is_sound(other, names[12:])
    assert other.delete(names, LATER) == []
    consolidate(folder, [], OLD, PACK_BYTES)
    assert packs(folder) == []


def test_a_deleted_blob_can_be_stored_again(tmp_path: Path) -> None:
    """A name that is gone from a pack is no obstacle, neither for a file nor for another pack."""
    folder = Folder(tmp_path)
    names = fill(folder, 4)
    pack_all(folder)
    folder.delete(names[:1], LATER)

    fill(folder, 4)
    assert folder.have(names) == set(names)
    pack_all(folder)

    assert is_sound(folder, names)
    assert folder.delete(names, LATER) == []
    assert folder.page("", 9) == []


def test_nothing_is_deleted_from_packs_that_are_being_written(tmp_path: Path) -> None:
    """Deletion does not wait for consolidation: the blobs stay, and the next sweep takes them."""
    folder = Folder(tmp_path)
    names = fill(folder, 3)
    pack_all(folder)

    with folder.packs.locked(2):  # exclusively
        assert folder.delete(names, LATER) == names
        assert consolidate(folder, names, math.inf, PACK_BYTES) == 0
    assert folder.delete(names, LATER) == []


def test_a_damaged_index_is_built_again(tmp_path: Path) -> None:
    """One wrong bit in the index costs nothing: the blobs are found by what stands before their bytes."""
    folder = Folder(tmp_path)
    names = fill(folder, 20)
    pack_all(folder)
    [pack] = packs(folder)
    data = bytearray(pack.read_bytes())
    data[-300] ^= 1
    pack.write_bytes(data)

    for place in (Folder(tmp_path), Folder(tmp_path)):
        assert is_sound(place, names)
        consolidate(place, [], OLD, PACK_BYTES)

    assert is_sound(Folder(tmp_path), names)
    [pack] = packs(folder)
    index = pack.read_bytes()[-24 - 56 * 20 - 8 : -24]
    assert hashlib.sha256(index).hexdigest() == pack.stem


@pytest.mark.parametrize("left", [0, 10, 1000])
def test_a_pack_that_was_cut_short_loses_only_what_is_cut_off(tmp_path: Path, left: int) -> None:
    """What cannot be read is absent, so that it is brought from elsewhere; nothing else is affected."""
    folder = Folder(tmp_path)
    names = fill(folder, 20)
    pack_all(folder)
    [pack] = packs(folder)
    pack.write_bytes(pack.read_bytes()[:left])

    here = sorted(Folder(tmp_path).have(names))

    assert len(here) == (0 if left < 100 else 8)
    assert is_sound(Folder(tmp_path), here)


def test_damaged_bytes_are_set_aside_alone(tmp_path: Path) -> None:
    """A damaged blob of a pack is reported once and kept for inspection; the others of its pack stay."""
    folder = Folder(tmp_path)
    names = fill(folder, 5)
    pack_all(folder)
    damage_packed(folder, names[3], b"damaged")

    with pytest.raises(Corrupt):
        folder.open(names[3])
    with pytest.raises(NoRoute):
        folder.open(names[3])

    assert (tmp_path / "bad" / names[3]).read_bytes().startswith(b"damaged")
    assert [row.blob for row in Folder(tmp_path).page("", 9)] == [name for name in names if name != names[3]]


def test_damaged_bytes_are_not_written_into_another_pack_or_lost(tmp_path: Path) -> None:
    """Neither a damaged file nor a sparse pack with damaged bytes is consolidated: scrubbing sets them aside first."""
    folder = Folder(tmp_path)
    names = fill(folder, 8)
    folder.path(names[0]).write_bytes(b"damaged")
    os.utime(folder.path(names[0]), (OLD, OLD))
    assert consolidate(folder, names, LATER, PACK_BYTES) == 7
    folder.delete(names[1:6], LATER)
    damage_packed(folder, names[6], b"damaged")
    before = packs(folder)

    assert consolidate(folder, names, LATER, PACK_BYTES) == 0
    assert (files(folder), packs(folder)) == ([names[0]], before)

    assert [name for name in names if folder.is_corrupt(name)] == [names[0], names[6]]
    assert consolidate(folder, [], LATER, PACK_BYTES) == 0
    assert is_sound(folder, names[7:])
    assert packs(folder) != before


def test_a_crash_between_pack_and_files_is_finished_by_the_next_one(tmp_path: Path) -> None:
    """The blobs are in both then; the files go without a second pack."""
    folder = Folder(tmp_path)
    names = fill(folder, 6)
    command = [sys.executable, "-c", _CONSOLIDATE, str(tmp_path), "packs.before_unlink", *names]
    assert subprocess.run(command, check=False).returncode == 137
    assert (files(folder), len(packs(folder))) == (names, 1)
    assert [row.blob for row in folder.page("", 9)] == names

    assert pack_all(folder) == 6

    assert (files(folder), len(packs(folder))) == ([], 1)
    assert is_sound(folder, names)


def test_a_crash_between_two_packs_is_finished_by_the_next_one(tmp_path: Path) -> None:
    """What is left of a sparse pack is in both; what was deleted from it does not return."""
    folder = Folder(tmp_path)
    names = fill(folder, 10)
    pack_all(folder)
    folder.delete(names[:8], LATER)
    command = [sys.executable, "-c", _CONSOLIDATE, str(tmp_path), "packs.before_replace"]
    assert subprocess.run(command, check=False).returncode == 137
    assert len(packs(folder)) == 2
    assert [row.blob for row in folder.page("", 19)] == names[8:]

    consolidate(folder, [], OLD, PACK_BYTES)

    assert len(packs(folder)) == 1
    assert folder.have(names) == set(names[8:])
    assert is_sound(folder, names[8:])


def test_a_pack_is_bounded(tmp_path: Path) -> None:
    """What does not fit waits for the next one."""
    folder = Folder(tmp_path)
    names = fill(folder, 20)

    assert 1 <= consolidate(folder, names, math.inf, 500) < 10
    while consolidate(folder, files(folder), math.inf, 500):
        pass

    assert (files(folder), len(packs(folder)) > 2) == ([], True)
    assert is_sound(folder, names)


def test_readers_and_writers_notice_nothing_while_files_are_packed(tmp_path: Path) -> None:
    """Blobs are packed, unpacked, deleted and written anew all the time, and every look at one that is needed works."""
    folder, rng, failures, stop = Folder(tmp_path), Random(7), list[str](), threading.Event()
    names = fill(folder, 12)
    needed, others = names[:5], names[5:]

    def watch(seed: int) -> None:
        reader, chance = Folder(tmp_path), Random(seed)
        while not stop.is_set():
            blob = chance.choice(needed)
            try:
                if not is_sound(reader, [blob]) or reader.have(needed) != set(needed):
                    failures.append(f"{blob} is not there")
                if chance.random() < 0.02:
                    reader.renew(blob)
            except (NoRoute, Corrupt, OSError) as error:
                failures.append(repr(error))

    threads = [threading.Thread(target=watch, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(12):
        pack_all(folder)
        folder.delete(rng.sample(others, 5), LATER)
        fill(folder, 12)
    stop.set()
    for thread in threads:
        thread.join()

    assert failures == []
    assert is_sound(folder, needed)


def test_blobs_that_arrive_together_are_stored_together(tmp_path: Path) -> None:
    """Those with the right bytes are durable in one file; a wrong one is left out and harms no other."""
    blobs, datas = FolderBlobs(tmp_path), [bytes([number]) * 50_000 for number in range(40)]
    names = [hashlib.sha256(data).hexdigest() for data in datas]

    async def arrive() -> AsyncIterator[tuple[str, bytes]]:
        for number, (name, data) in enumerate(zip(names, datas, strict=True)):
            yield name, data if number != 7 else b"wrong"

    async def story() -> list[str]:
        return list(await blobs.write_pack(arrive()))

    stored = run(story())

    assert stored == [name for name in names if name != names[7]]
    assert (files(blobs.folder), len(packs(blobs.folder))) == ([], 1)
    assert blobs.folder.have(names) == set(stored)
    assert is_sound(blobs.folder, stored)
    assert os.listdir(tmp_path / "tmp") == []


def test_blobs_that_stop_arriving_leave_nothing(tmp_path: Path) -> None:
    """When the stream breaks, no part of it is stored: the sender is asked again."""
    blobs = FolderBlobs(tmp_path)

    async def arrive() -> AsyncIterator[tuple[str, bytes]]:
        yield hashlib.sha256(b"first").hexdigest(), b"first"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        run(blobs.write_pack(arrive()))

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert blobs.folder.page("", 9) == []


def test_pieces_of_a_packed_blob_are_its_own_bytes(tmp_path: Path) -> None:
    """A piece never goes beyond the blob into the next one of the pack."""
    blobs = PackedBlobs(tmp_path)

    async def story() -> list[tuple[bytes, int]]:
        [blob, _] = await blobs.put([b"0123456789", b"another"])
        return [await blobs.read_piece(blob, offset, 4) for offset in (0, 4, 8, 10, 99)]

    assert run(story()) == [(b"0123", 10), (b"4567", 10), (b"89", 10), (b"", 10), (b"", 10)]


def test_of_two_copies_the_younger_counts(tmp_path: Path) -> None:
    """A blob that was stored again and packed again is in two packs: it is as young as the last one."""
    folder = Folder(tmp_path)
    names = fill(folder, 3)
    pack_all(folder)
    folder.renew(names[1])
    time = folder.path(names[1]).stat().st_mtime
    pack_all(folder)

    assert len(packs(folder)) == 2
    assert folder.locate(names[1]).time == time
    assert [row.time for row in folder.page("", 9)] == [OLD, time, OLD]


def test_a_pack_that_is_not_what_was_written_gets_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each blob is read back from the disk and compared; if one is wrong, every file stays."""
    folder, write = Folder(tmp_path), os.write
    names = fill(folder, 5)

    def flip(descriptor: int, data: memoryview) -> int:
        return write(descriptor, bytes(data).replace(b"game 3", b"game 4"))  # as a failing controller may

    monkeypatch.setattr(os, "write", flip)
    with pytest.raises(Corrupt):
        pack_all(folder)
    monkeypatch.undo()

    assert (files(folder), packs(folder)) == (names, [])
    assert is_sound(folder, names)
