"""Blobs are named by their content, whole or absent, and never returned damaged."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from contract.engines import run, settle
from contract.packed import PackedBlobs, damage_packed
from ringrift.blobs.folder import FolderBlobs
from ringrift.blobs.ports import CHUNK, Blobs
from ringrift.kernel.errors import Corrupt, InvalidId, NoRoom, NoRoute
from ringrift.sim.blobs import MemoryBlobs
from ringrift.threads import Threads
from wait import wait_until

DATA = b"some games"
NAME = hashlib.sha256(DATA).hexdigest()


class Shelf:
    """A blob store, and a way to damage its blobs from outside."""

    def __init__(self, blobs: Blobs, folder: Path | None = None) -> None:
        self.blobs, self.folder = blobs, folder

    def damage(self, blob: str, data: bytes) -> None:
        """Replace the content of *blob* by *data*."""
        if isinstance(self.blobs, MemoryBlobs):
            self.blobs.files[blob] = data
        elif isinstance(self.blobs, PackedBlobs):
            damage_packed(self.blobs.folder, blob, data)
        elif isinstance(self.blobs, FolderBlobs):
            self.blobs.folder.path(blob).write_bytes(data)

    def left(self) -> list[str]:
        """The names of all files below the folder."""
        return files_below(self.folder) if self.folder else []


def files_below(folder: Path) -> list[str]:
    """The names of all files in *folder* and its folders."""
    return [path.name for path in folder.rglob("*") if path.is_file() and path.name != "lock"]


@pytest.fixture(params=["folder", "packed", "memory"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    """Every engine of blobs in turn."""
    if request.param == "memory":
        yield Shelf(MemoryBlobs())
    elif request.param == "packed":
        yield Shelf(PackedBlobs(tmp_path / "blobs"))
    else:
        yield Shelf(FolderBlobs(tmp_path / "blobs"), tmp_path / "blobs")


async def pieces(*datas: bytes) -> AsyncIterator[bytes]:
    """*datas* as they arrive over a network."""
    for data in datas:
        yield data


async def whole(blobs: Blobs, blob: str) -> bytes:
    """All bytes of *blob*."""
    return b"".join([chunk async for chunk in blobs.read(blob)])


async def names_of(blobs: Blobs) -> list[str]:
    """The names of all blobs, in order."""
    return [stored.blob for stored in await blobs.page("", 10_000)]


def test_a_blob_is_named_by_its_bytes(shelf: Shelf) -> None:
    """Putting returns the SHA-256 of each of the datas, and each can be read under that name, also the empty one."""
    datas = [DATA, b"", bytes(range(256)) * 40]

    async def story() -> tuple[list[str], list[bytes]]:
        names = await shelf.blobs.put(datas)
        return list(names), [await whole(shelf.blobs, name) for name in names]

    names, result = run(story())

    assert names == [hashlib.sha256(data).hexdigest() for data in datas]
    assert result == datas


def test_putting_again_changes_nothing(shelf: Shelf) -> None:
    """The same bytes have the same name however often they are put, also by many at once."""

    async def story() -> tuple[set[str], list[str]]:
        puts = await asyncio.gather(*(shelf.blobs.put([DATA, DATA]) for _ in range(8)))
        return {name for names in puts for name in names}, await names_of(shelf.blobs)

    assert run(story()) == ({NAME}, [NAME])
    assert shelf.left() in ([], [NAME])


def test_a_written_blob_is_whole(shelf: Shelf) -> None:
    """A blob that arrives in pieces under its right name is stored with its size, and is read in bounded chunks."""
    data = b"0123456789" * (CHUNK // 4)
    name = hashlib.sha256(data).hexdigest()

    async def story() -> tuple[int, list[bytes]]:
        size = await shelf.blobs.write(name, pieces(data[:7], b"", data[7:]))
        return size, [chunk async for chunk in shelf.blobs.read(name)]

    size, chunks = run(story())

    assert size == len(data)
    assert b"".join(chunks) == data
    assert max(len(chunk) for chunk in chunks) <= CHUNK


@pytest.mark.parametrize("datas", [(b"other",), (DATA, b"!"), (DATA[:-1],), ()], ids=["other", "more", "less", "none"])
def test_wrong_bytes_leave_nothing(shelf: Shelf, datas: tuple[bytes, ...]) -> None:
    """Bytes that do not hash to their name are refused, and neither a blob nor a piece of one stays."""

    async def story() -> tuple[frozenset[str], list[str]]:
        with pytest.raises(Corrupt) as refused:
            await shelf.blobs.write(NAME, pieces(*datas))
        assert refused.value.blob == NAME
        return await shelf.blobs.have([NAME]), await names_of(shelf.blobs)

    assert run(story()) == (frozenset(), [])
    assert shelf.left() == []


def test_wrong_bytes_do_not_harm_the_right_ones(shelf: Shelf) -> None:
    """A damaged transfer of a blob that is here leaves the good copy in place."""

    async def story() -> bytes:
        await shelf.blobs.put([DATA])
        with pytest.raises(Corrupt):
            await shelf.blobs.write(NAME, pieces(b"other"))
        return await whole(shelf.blobs, NAME)

    assert run(story()) == DATA


def test_a_blob_is_invisible_until_it_is_whole(shelf: Shelf) -> None:
    """While its bytes arrive a blob is neither listed nor readable; after the last byte it is."""
    visible: list[object] = []

    async def slowly() -> AsyncIterator[bytes]:
        for byte in DATA:
            yield bytes([byte])
            visible.extend([*await names_of(shelf.blobs), *await shelf.blobs.have([NAME])])
            with pytest.raises(NoRoute):
                await whole(shelf.blobs, NAME)

    async def story() -> list[str]:
        await shelf.blobs.write(NAME, slowly())
        return await names_of(shelf.blobs)

    assert run(story()) == [NAME]
    assert visible == []


@pytest.mark.parametrize("error", [ConnectionError("gone"), asyncio.CancelledError()], ids=["lost", "cancelled"])
def test_a_transfer_that_breaks_leaves_nothing(shelf: Shelf, error: BaseException) -> None:
    """When the bytes stop coming, for whatever reason, nothing of the blob stays."""

    async def break_off() -> AsyncIterator[bytes]:
        yield DATA[:4]
        raise error

    async def story() -> list[str]:
        with pytest.raises(type(error)):
            await shelf.blobs.write(NAME, break_off())
        return await names_of(shelf.blobs)

    assert run(story()) == []
    assert shelf.left() == []


@pytest.mark.parametrize("damaged", [DATA[:-1], b"", b"S" + DATA[1:]], ids=["shorter", "empty", "flipped"])
def test_a_damaged_blob_is_detected_on_reading(shelf: Shelf, damaged: bytes) -> None:
    """A blob whose bytes have changed is not returned but reported, and set aside so that it is no longer listed."""

    async def story() -> tuple[list[str], frozenset[str]]:
        await shelf.blobs.put([DATA])
        shelf.damage(NAME, damaged)
        with pytest.raises(Corrupt) as refused:
            await whole(shelf.blobs, NAME)
        assert refused.value.blob == NAME
        with pytest.raises(NoRoute):
            await whole(shelf.blobs, NAME)
        return await names_of(shelf.blobs), await shelf.blobs.have([NAME])

    assert run(story()) == ([], frozenset())


def test_many_small_files_come_with_one_question(shelf: Shelf) -> None:
    """The first ones that fit; what is damaged, large or not there is left out, and none of it is asked for again."""

    async def story() -> None:
        first, bad, large, last = await shelf.blobs.put([b"first", b"bad", b"l" * 11, b"last"])
        shelf.damage(bad, b"other")
        files, count = await shelf.blobs.read_small([first, bad, NAME, large, last], 10, 1000)
        assert (files, count) == ([(first, b"first"), (last, b"last")], 5)
        assert await shelf.blobs.read_small([first, last], 10, 14) == ([(first, b"first")], 1)

    run(story())


def test_a_damaged_file_is_kept_for_inspection(tmp_path: Path) -> None:
    """A damaged file is moved out of service, not destroyed."""
    blobs = FolderBlobs(tmp_path)

    async def story() -> None:
        await blobs.put([DATA])
        blobs.folder.path(NAME).write_bytes(b"damaged")
        with pytest.raises(Corrupt):
            await whole(blobs, NAME)

    run(story())

    assert (tmp_path / "bad" / NAME).read_bytes() == b"damaged"


@pytest.mark.parametrize("again", ["put", "write"])
def test_a_good_copy_replaces_a_damaged_one(shelf: Shelf, again: str) -> None:
    """Storing the right bytes over damaged ones puts them on stable storage before the name is returned."""

    async def story() -> bytes:
        await shelf.blobs.put([DATA])
        shelf.damage(NAME, b"damaged")
        if again == "put":
            await shelf.blobs.put([DATA])
        else:
            await shelf.blobs.write(NAME, pieces(DATA))
        return await whole(shelf.blobs, NAME)

    assert run(story()) == DATA


def test_scrubbing_detects_every_damaged_blob(shelf: Shelf) -> None:
    """Scrubbing in steps reads every blob once, reports the damaged ones and sets them aside."""
    datas = [str(number).encode() for number in range(7)]

    async def story() -> tuple[list[str], int, list[str], list[str]]:
        names = sorted(await shelf.blobs.put(datas))
        for name in (names[0], names[3], names[6]):
            shelf.damage(name, b"damaged")
        result, steps, page = [], 0, await shelf.blobs.page("", 3)
        while page:
            result, steps = [*result, *await shelf.blobs.verify([stored.blob for stored in page])], steps + 1
            page = await shelf.blobs.page(page[-1].blob, 3)
        return result, steps, names, await names_of(shelf.blobs)

    result, steps, names, left = run(story())

    assert (result, steps) == ([names[0], names[3], names[6]], 3)
    assert left == [names[1], names[2], names[4], names[5]]


def test_reading_an_absent_blob_is_refused_by_name(shelf: Shelf) -> None:
    """Reading an absent blob raises an error that names it; a query for present blobs leaves it out."""

    async def story() -> tuple[str, frozenset[str]]:
        await shelf.blobs.put([b"other"])
        with pytest.raises(NoRoute) as refused:
            await whole(shelf.blobs, NAME)
        return refused.value.blob, await shelf.blobs.have([NAME, hashlib.sha256(b"other").hexdigest()])

    blob, here = run(story())

    assert (blob, len(here)) == (NAME, 1)


@pytest.mark.parametrize(
    "name", ["", "../x", NAME.upper(), NAME[:-1], NAME + "0", NAME + "\n", "/etc/passwd", f"..{NAME[2:]}"]
)
@pytest.mark.parametrize("verb", ["read", "write", "have"])
def test_a_name_that_is_no_hash_is_refused(shelf: Shelf, verb: str, name: str) -> None:
    """Only 64 lower-case hexadecimal digits are accepted as a name; any other name is refused and nothing changes."""
    uses: dict[str, Callable[[], Awaitable[object]]] = {
        "read": lambda: whole(shelf.blobs, name),
        "write": lambda: shelf.blobs.write(name, pieces(DATA)),
        "have": lambda: shelf.blobs.have([name]),
    }

    async def story() -> list[str]:
        with pytest.raises(InvalidId):
            await uses[verb]()
        return await names_of(shelf.blobs)

    assert run(story()) == []
    assert shelf.left() == []


def test_blobs_outlive_the_object(tmp_path: Path) -> None:
    """Another object over the same folder reads the blobs that were put, and an absent folder is an empty one."""

    async def story() -> tuple[list[str], bytes]:
        assert await names_of(FolderBlobs(tmp_path / "none")) == []
        await FolderBlobs(tmp_path / "blobs").put([DATA])
        again = FolderBlobs(tmp_path / "blobs")
        return await names_of(again), await whole(again, NAME)

    assert run(story()) == ([NAME], DATA)


@pytest.mark.parametrize("verb", ["put", "write"])
def test_a_full_disk_is_reported_and_leaves_no_partial_blob(small_disk: Path, verb: str) -> None:
    """Without room a blob is refused, no piece of it stays, and a smaller one is stored."""
    blobs = FolderBlobs(small_disk / "blobs")
    great = bytes(2_000_000)
    name = hashlib.sha256(great).hexdigest()

    async def story() -> list[str]:
        with pytest.raises(NoRoom):
            await (blobs.put([great]) if verb == "put" else blobs.write(name, pieces(great[:500_000], great[500_000:])))
        assert files_below(small_disk) == []
        await blobs.put([DATA])
        return list(await names_of(blobs))

    assert run(story()) == [NAME]


def test_a_disk_without_room_for_files_is_full_too(small_disk: Path) -> None:
    """A disk that can hold no more files has no room, even if it could hold more bytes."""
    blobs = FolderBlobs(small_disk / "blobs")
    with suppress(OSError):
        for number in range(100):
            (small_disk / str(number)).touch()

    with pytest.raises(NoRoom):
        run(blobs.put([DATA]))


class Turnstile(Threads):
    """Threads whose calls, once begun, wait until they are let through."""

    def __init__(self) -> None:
        super().__init__(2, "turnstile")
        self.open, self.begun = threading.Event(), threading.Event()
        self.open.set()

    def run(
        self, call: Callable[..., Any], *args: object, on_end: Callable[[], None] | None = None
    ) -> "asyncio.Future[Any]":
        """Run *call* when it is let through."""

        def let_through() -> Any:
            self.begun.set()
            self.open.wait()
            return call(*args)

        return super().run(let_through, on_end=on_end)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("moment", ["opening", "writing"])
def test_a_cancelled_write_leaves_no_file_and_touches_no_other(tmp_path: Path, moment: str, times: int) -> None:
    """A write that is cancelled, even twice, while a thread works for it ends only when that thread has ended."""
    blobs, turnstile, victim = FolderBlobs(tmp_path / "blobs"), Turnstile(), tmp_path / "victim"
    blobs._threads = turnstile

    def shut() -> None:
        turnstile.open.clear()
        turnstile.begun.clear()

    async def shut_first() -> AsyncIterator[bytes]:
        shut()
        yield DATA

    async def story() -> bytes:
        if moment == "opening":
            shut()
        writing = asyncio.create_task(blobs.write(NAME, shut_first()))
        await wait_until(lambda: turnstile.begun.is_set() and not turnstile.open.is_set())
        for _ in range(times):
            writing.cancel()
            await settle()
        with victim.open("wb") as file:  # may get the number of a file that was closed too early
            turnstile.open.set()
            await asyncio.wait((writing,))
            file.write(b"precious")
        return victim.read_bytes()

    assert run(story()) == b"precious"
    assert files_below(tmp_path) == ["victim"]
