"""Whether anything changed in a folder of blobs is known without reading it, and always right."""

import hashlib
import os
from pathlib import Path
from random import Random

import pytest

from contract.engines import run
from contract.packed import pack_all
from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.blobs.index import add_summaries, summarize
from ringrift.blobs.ports import BlobSummary
from ringrift.sim.blobs import MemoryBlobs


def expected(datas: set[bytes]) -> BlobSummary:
    """The summary of blobs with these bytes."""
    names = {hashlib.sha256(data).hexdigest(): len(data) for data in datas}
    digest = sum(int(name, 16) for name in names) % 2**256
    return BlobSummary(count=len(names), bytes=sum(names.values()), digest=f"{digest:064x}")


def test_the_summary_is_that_of_what_is_there(tmp_path: Path) -> None:
    """Whatever two processes store, delete, pack and unpack, in any order, both know it at once."""
    rng, datas = Random(3), set[bytes]()
    folders = [Folder(tmp_path), Folder(tmp_path)]
    assert add_summaries(folders[0].summarize()) == BlobSummary()

    for number in range(120):
        writer, reader = rng.sample(folders, 2)
        match rng.randrange(6):
            case 0 | 1 | 2:
                data = f"game {rng.randrange(80)} ".encode() * rng.randrange(1, 3)
                writer.put(data)
                datas.add(data)
            case 3 if datas:
                data = rng.choice(sorted(datas))
                writer.delete([hashlib.sha256(data).hexdigest()], 1e12)
                datas.remove(data)
            case 4 if datas:
                writer.open(hashlib.sha256(rng.choice(sorted(datas))).hexdigest())
            case 5 if number % 5 == 0:
                pack_all(writer)
        assert add_summaries(reader.summarize()) == add_summaries(writer.summarize()) == expected(datas)

    names = {hashlib.sha256(data).hexdigest() for data in datas}
    assert {row.blob for row in folders[0].page("", 1000)} == names


def test_each_first_byte_has_a_summary_of_its_own(tmp_path: Path) -> None:
    """Where two nodes differ, the buckets say where to look; every engine has the same."""
    blobs, memory = FolderBlobs(tmp_path), MemoryBlobs()
    datas = [str(number).encode() for number in range(50)]

    async def story() -> tuple[list[BlobSummary], list[BlobSummary], bool]:
        for engine in (blobs, memory):
            await engine.put(datas)
        same = await blobs.summary() == await memory.summary() == expected(set(datas))
        return list(await blobs.buckets()), list(await memory.buckets()), same

    buckets, others, is_same = run(story())

    assert is_same
    assert buckets == others
    assert [bucket.count for bucket in buckets] == [
        sum(hashlib.sha256(data).digest()[0] == first for data in datas) for first in range(256)
    ]


def test_nothing_is_listed_where_nothing_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that rests is listed once; then only the times of its shelves are read."""
    folder, lists = Folder(tmp_path), list[str]()
    for number in range(300):
        folder.put(str(number).encode())
    for shelf in tmp_path.glob("??"):
        os.utime(shelf, (1000.0, 1000.0))  # long ago
    first = folder.summarize()
    scan = os.scandir

    def note(path: str) -> object:
        lists.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", note)

    assert folder.summarize() == first
    assert lists == []
    blob = folder.put(b"another")
    assert add_summaries(folder.summarize()).count == 301
    assert lists == [f"{tmp_path}/{blob[:2]}"]


def test_a_change_in_the_same_tick_is_noticed(tmp_path: Path) -> None:
    """The time of a shelf may be that of the list itself: then the list is not relied upon."""
    folder, other = Folder(tmp_path), Folder(tmp_path)
    blob = folder.put(b"first")
    shelf = folder.path(blob).parent
    numbers = (str(number).encode() for number in range(10_000))
    data = next(data for data in numbers if hashlib.sha256(data).hexdigest()[:2] == blob[:2])
    tick = os.stat(shelf).st_mtime_ns + 10**9  # as if the clock of the disk stood still while the list was made
    os.utime(shelf, ns=(tick, tick))

    assert add_summaries(folder.summarize()).count == 1
    other.put(data)
    os.utime(shelf, ns=(tick, tick))

    assert add_summaries(folder.summarize()).count == 2


def test_many_blobs_are_looked_up_at_once_and_fresh_ones_are_not_missed(tmp_path: Path) -> None:
    """A blob that another process has just stored is there, whatever the list of its shelf says."""
    folder, other = Folder(tmp_path), Folder(tmp_path)
    names = [folder.put(str(number).encode()) for number in range(200)]
    assert folder.have(names) == set(names)
    shelf = folder.path(names[0]).parent
    time = os.stat(shelf).st_mtime_ns

    numbers = (str(number).encode() for number in range(1000, 20_000))
    data = next(data for data in numbers if hashlib.sha256(data).hexdigest()[:2] == shelf.name)
    fresh = other.put(data)
    os.utime(shelf, ns=(time, time))
    assert folder.have([*names, fresh]) == {*names, fresh}
    pack_all(other)
    late = [folder.put(str(number).encode()) for number in range(300, 310)]

    absent = hashlib.sha256(b"absent").hexdigest()
    assert folder.have([*names, fresh, absent, *late]) == {*names, fresh, *late}


def test_summaries_add_up() -> None:
    """The sum of the parts is the whole."""
    parts = [summarize({"f" * 64: 3}), summarize({"1" * 64: 4, "2" * 64: 5})]

    assert add_summaries(parts) == summarize({"f" * 64: 3, "1" * 64: 4, "2" * 64: 5})
