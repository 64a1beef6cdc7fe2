"""Faults below the store become our own errors, change nothing else, and no driver's error leaks."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from contract.engines import Door, Engine, append, delivery, envelope, logged, put, recorded, run, settle
from ringrift.kernel.errors import Busy, NoRoom, StoreError, Unreachable
from ringrift.sim.disk import Disk
from ringrift.store.ports import Store

PAGE = 4096


def disk_of(engine: Engine) -> Disk:
    """The lossy disk below *engine*."""
    assert engine.disk is not None
    return engine.disk


def fill(disk: Disk, pages: int = 0) -> None:
    """Leave room for no more than *pages*."""
    # The refused growth is measured against all files, so this is exact.
    disk.room = sum(len(image.content) for image in disk._images.values()) + pages * PAGE


def exhaust(filler: Path) -> None:
    """Write *filler* until nothing more fits on its disk."""
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        for _ in range(1024):
            file.write(b"x" * PAGE)


async def write(store: Store) -> object:
    """Append something."""
    return await append(store, "late")


@pytest.mark.parametrize("use", [write, logged])
def test_a_closed_store_raises_its_own_error(engine: Engine, use: Callable[[Store], Awaitable[object]]) -> None:
    """Writing to or reading from a closed store raises our error, not the driver's."""

    async def story() -> None:
        async with engine.open() as store:
            await append(store, "a")
            await logged(store)
        await use(store)

    with pytest.raises(StoreError):
        run(story())


def test_a_read_in_flight_at_closing_ends_with_an_answer_or_our_error(on_file: Engine) -> None:
    """A view that is open when the store closes ends with an answer or with our error."""

    async def story() -> list[str]:
        async with on_file.open() as store:
            await append(store, "a")
            reading = asyncio.create_task(logged(store))
            await asyncio.sleep(0)
        try:
            return await reading
        except StoreError:
            return ["a"]

    assert run(story()) == ["a"]


@pytest.mark.parametrize(
    "content",
    [b"not a database" * 1000, b"SQLite format 3\x00" + bytes(range(200)) * 100, None],
    ids=["other file", "damaged header", "folder"],
)
def test_a_file_that_is_no_store_is_refused(on_file: Engine, content: bytes | None) -> None:
    """A path that holds something else, or a folder, is refused with our error and left unchanged."""
    on_file.path.parent.mkdir()
    if content is None:
        on_file.path.mkdir()
    else:
        on_file.path.write_bytes(content)

    with pytest.raises(StoreError) as refused:
        on_file.run(logged)

    assert str(on_file.path) in str(refused.value)
    assert content is None or on_file.path.read_bytes() == content


def test_a_damaged_page_is_reported_to_readers(on_file: Engine) -> None:
    """Reading a damaged page raises our error with the path."""

    async def write_much(store: Store) -> None:
        await append(store, *(str(number) for number in range(2000)))

    on_file.run(write_much)
    data = bytearray(on_file.path.read_bytes())
    data[2 * PAGE :] = b"\xaa" * (len(data) - 2 * PAGE)
    on_file.path.write_bytes(data)

    with pytest.raises(StoreError) as refused:
        on_file.run(logged)

    assert str(on_file.path) in str(refused.value)


def test_a_file_that_vanished_is_reported_to_readers(on_file: Engine) -> None:
    """Reading from a file that cannot be opened any more raises our error."""

    async def story(store: Store) -> None:
        await append(store, "a")
        for path in on_file.path.parent.iterdir():
            path.unlink()
        await logged(store)

    with pytest.raises(StoreError):
        on_file.run(story)


@pytest.mark.parametrize("times", [1, 2])
def test_a_reader_that_is_cancelled_is_just_cancelled(on_file: Engine, times: int) -> None:
    """Giving up on a slow answer, even twice, ends in the cancellation, and the next reader is served."""
    names = [str(number) for number in range(150)]

    async def look(store: Store) -> None:
        async with store.read() as view:
            while True:
                await view.walk(names, True, 1000)

    async def story(store: Store) -> tuple[bool, list[str]]:
        await append(store, "a")
        async with store.begin() as tx:
            await tx.link([(child, parent) for child in names for parent in names])
        looking = asyncio.create_task(look(store))
        await logged(store)
        for _ in range(times):
            looking.cancel()
            await settle()
        await asyncio.wait((looking,))
        return looking.cancelled(), await logged(store)

    assert on_file.run(story) == (True, ["a"])


def test_a_full_disk_refuses_and_recovers(on_lossy: Engine) -> None:
    """Without room for its COMMIT a transaction is refused and nothing changes; with room, writing continues."""
    disk = disk_of(on_lossy)

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await put(store, "k", "before")
        fill(disk)
        refused = [put(store, "k", f"refused-{number}", b"x" * 5 * PAGE) for number in range(3)]
        answers = await asyncio.gather(*refused, return_exceptions=True)
        assert [type(answer) for answer in answers] == [NoRoom] * 3
        meanwhile = await recorded(store, "k")
        disk.room = None
        await put(store, "k", "after")
        return meanwhile, await recorded(store, "k")

    assert on_lossy.run(story) == (["before"], ["after", "before"])
    assert on_lossy.run(recorded_k) == ["after", "before"]


async def recorded_k(store: Store) -> list[str]:
    """The recorded ids."""
    return await recorded(store, "k")


def test_a_disk_that_fills_up_inside_a_body_refuses_the_group(on_lossy: Engine) -> None:
    """When a body itself runs out of room, all transactions of its group are refused for lack of room."""
    disk = disk_of(on_lossy)

    async def story(store: Store) -> tuple[list[type], list[str]]:
        await put(store, "k", "before")
        fill(disk, pages=20)
        # The second is larger than SQLite's cache, so that it spills to the disk before its COMMIT.
        writes = [put(store, "k", "small"), put(store, "k", "great", b"x" * 12_000_000)]
        answers = await asyncio.gather(*writes, return_exceptions=True)
        disk.room = None
        await put(store, "k", "after")
        return [type(answer) for answer in answers], await recorded(store, "k")

    answers, left = on_lossy.run(story)

    assert answers == [NoRoom, NoRoom]
    assert left == ["after", "before"]


def test_a_real_full_disk_refuses_and_recovers(small_disk: Path) -> None:
    """On a real disk without room a transaction is refused, reads continue, and writes too once there is room."""
    engine = Engine(small_disk / "home" / "store.db")
    filler = small_disk / "filler"

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await put(store, "k", "before")
        exhaust(filler)
        with pytest.raises(NoRoom):
            await put(store, "k", "refused", b"x" * 50 * PAGE)
        meanwhile = await recorded(store, "k")
        filler.unlink()
        await put(store, "k", "after", b"x" * 10 * PAGE)
        return meanwhile, await recorded(store, "k")

    assert engine.run(story) == (["before"], ["after", "before"])


def test_a_failed_sync_stops_the_store(on_lossy: Engine) -> None:
    """When a sync fails, all transactions of the group raise the error, and no further work is accepted."""
    disk = disk_of(on_lossy)

    async def story(store: Store) -> tuple[int, list[type]]:
        await append(store, "a")
        disk.fail_sync = 1
        group = await asyncio.gather(*(append(store, id) for id in "bcd"), return_exceptions=True)
        syncs = disk.syncs
        for use in (write, logged):
            with pytest.raises(Unreachable):
                await use(store)
        assert disk.syncs == syncs, "a failed sync is never tried again"
        return store.position, [type(answer) for answer in group]

    position, answers = on_lossy.run(story)
    disk.cut()

    assert (position, answers) == (1, [Unreachable] * 3)
    assert on_lossy.run(logged) == ["a"]


def test_transactions_waiting_when_the_store_stops_are_refused(on_lossy: Engine) -> None:
    """Transactions that are queued behind a COMMIT that fails end with our error instead of waiting for ever."""
    disk = disk_of(on_lossy)

    async def story() -> list[object]:
        door = Door()
        async with on_lossy.open(offload=door.offload) as store:
            await append(store, "a")
            door.opened.clear()
            disk.fail_sync = 1
            writing = [asyncio.create_task(append(store, "b"))]
            await settle()
            writing += [asyncio.create_task(append(store, id)) for id in "cde"]
            await settle()
            door.opened.set()
            return [*await asyncio.gather(*writing, return_exceptions=True)]

    assert [type(answer) for answer in run(story())] == [Unreachable] * 4


def test_a_value_that_cannot_be_stored_is_no_reason_to_stop(engine: Engine) -> None:
    """A value that breaks a rule of the schema is refused as such, alone, and not as if the store had stopped."""

    async def story(store: Store) -> tuple[bool, list[str]]:
        async def park() -> None:
            async with store.begin() as tx:
                await tx.append([envelope("with-it")])
                await tx.put_deliveries([delivery("reader", 1, "no such state")])

        with pytest.raises(StoreError) as refused:
            await park()
        await append(store, "a")
        return isinstance(refused.value, Unreachable), await logged(store)

    assert engine.run(story) == (False, ["a"])


def test_a_store_after_a_power_cut_raises_its_own_error(on_lossy: Engine) -> None:
    """After a power cut the old store object raises our error, and closes without one."""
    disk = disk_of(on_lossy)

    async def story(store: Store) -> None:
        await append(store, "a")
        disk.cut()
        for _ in range(2):
            with pytest.raises(Unreachable):
                await write(store)

    on_lossy.run(story)

    assert on_lossy.run(logged) == ["a"]


def test_a_read_only_disk_is_waited_for(small_disk: Path) -> None:
    """A store that cannot be written for the moment is busy, says why, and works again once its disk does."""
    engine = Engine(small_disk / "store.db")
    engine.run(write)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    try:
        with pytest.raises(Busy, match="read-only"):
            engine.run(write)
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)

    assert engine.run(logged) == ["late"]
