"""Parts of a transaction: one that fails is undone alone, and a full disk leaves nothing half-done."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from contract.engines import Engine, append, envelope, logged, put, recorded
from ringrift.kernel.errors import IdConflict, NoRoom
from ringrift.sim.disk import Disk
from ringrift.store.ports import Put, Store, Tx

MORE_THAN_THE_CACHE = 12_000_000
"""So great that SQLite spills it to the disk before the COMMIT."""


async def undone(tx: Tx) -> None:
    """Write a little of everything, and fail."""
    async with tx.apart():
        await tx.append([envelope("undone")])
        await tx.put([Put(kind="k", id="undone", body=b"x")])
        await tx.enrol("undone", 0)
        raise ZeroDivisionError


async def put_in(tx: Tx, *ids: str, wrong: str = "") -> None:
    """Write each of *ids* in a part of its own, all in one part; *wrong* fails."""
    async with tx.apart():
        for id in ids:
            async with tx.apart():
                await tx.put([Put(kind="k", id=id, body=b"x")])
                if id == wrong:
                    raise KeyError(id)


async def taken(tx: Tx) -> None:
    """Say something, and something under an id that is taken."""
    async with tx.apart():
        await tx.append([envelope("first")])
        await tx.append([envelope("taken", b'{"other":1}')])


def test_a_part_that_fails_is_undone_alone(engine: Engine) -> None:
    """What a failing part wrote, of every kind, is gone; what was written before and after it stays."""

    async def story(store: Store) -> tuple[list[str], list[str], dict[str, int]]:
        async with store.begin() as tx:
            await tx.append([envelope("before")])
            with pytest.raises(ZeroDivisionError):
                await undone(tx)
            async with tx.apart():
                await tx.put([Put(kind="k", id="kept", body=b"x")])
            await tx.append([envelope("after")])
        async with store.read() as view:
            places = dict(await view.places())
        return await logged(store), await recorded(store, "k"), places

    assert engine.run(story) == (["before", "after"], ["kept"], {})


def test_parts_may_have_parts(engine: Engine) -> None:
    """A part inside a part fails alone, and goes with the outer one if that fails later."""

    async def story(store: Store) -> list[str]:
        async with store.begin() as tx:
            async with tx.apart():
                await put_in(tx, "a")
                with pytest.raises(KeyError):
                    await put_in(tx, "b", wrong="b")
                await put_in(tx, "c")
            with pytest.raises(KeyError):
                await put_in(tx, "d", "e", wrong="e")
        return await recorded(store, "k")

    assert engine.run(story) == ["a", "c"]


def test_parts_go_with_their_transaction(engine: Engine) -> None:
    """A part that succeeded is undone with the rest if the transaction fails; others' transactions are not."""

    async def fail(store: Store) -> None:
        async with store.begin() as tx:
            async with tx.apart():
                await tx.put([Put(kind="k", id="gone", body=b"x")])
            raise ZeroDivisionError

    async def story(store: Store) -> tuple[list[object], list[str]]:
        answers = await asyncio.gather(
            put(store, "k", "one"), fail(store), put(store, "k", "two"), return_exceptions=True
        )
        return [type(answer) for answer in answers], await recorded(store, "k")

    assert engine.run(story) == ([type(None), ZeroDivisionError, type(None)], ["one", "two"])


def test_a_refused_verb_can_be_met_apart(engine: Engine) -> None:
    """Our own errors end the part they happen in, with nothing of it left, and the transaction goes on."""

    async def story(store: Store) -> list[str]:
        await append(store, "taken")
        async with store.begin() as tx:
            with pytest.raises(IdConflict):
                await taken(tx)
            await tx.append([envelope("second")])
        return await logged(store)

    assert engine.run(story) == ["taken", "second"]


def test_who_is_cancelled_in_a_part_has_done_nothing(engine: Engine) -> None:
    """Cancelling whoever is inside a part undoes the part and the transaction, and the store works on."""

    async def hang(store: Store, inside: asyncio.Event) -> None:
        async with store.begin() as tx:
            await tx.put([Put(kind="k", id="outer", body=b"x")])
            async with tx.apart():
                await tx.put([Put(kind="k", id="inner", body=b"x")])
                inside.set()
                await asyncio.Event().wait()

    async def story(store: Store) -> list[str]:
        inside = asyncio.Event()
        hanging = asyncio.create_task(hang(store, inside))
        await inside.wait()
        hanging.cancel()
        await asyncio.wait((hanging,))
        await put(store, "k", "after")
        return await recorded(store, "k")

    assert engine.run(story) == ["after"]


def disk_of(engine: Engine) -> Disk:
    """The lossy disk below *engine*, with room for no more than twenty pages."""
    assert engine.disk is not None
    engine.disk.room = sum(len(image.content) for image in engine.disk._images.values()) + 20 * 4096
    return engine.disk


async def great(tx: Tx) -> None:
    """Write more than there is room for."""
    async with tx.apart():
        await tx.put([Put(kind="k", id="great", body=b"x" * MORE_THAN_THE_CACHE)])


async def gives_up(store: Store) -> None:
    """Let the error travel."""
    async with store.begin() as tx:
        await tx.put([Put(kind="k", id="first", body=b"x")])
        await great(tx)


async def goes_on(store: Store) -> None:
    """Meet the error and go on, as if only the part were gone."""
    async with store.begin() as tx:
        await tx.put([Put(kind="k", id="first", body=b"x")])
        with pytest.raises(NoRoom):
            await great(tx)
        await tx.put([Put(kind="k", id="second", body=b"x")])


async def goes_on_apart(store: Store) -> None:
    """Meet the error, and go on in another part."""
    async with store.begin() as tx:
        await tx.put([Put(kind="k", id="first", body=b"x")])
        with pytest.raises(NoRoom):
            await great(tx)
        async with tx.apart():
            await tx.put([Put(kind="k", id="second", body=b"x")])


@pytest.mark.parametrize("body", [gives_up, goes_on, goes_on_apart])
def test_a_disk_that_fills_up_in_a_part_leaves_nothing(
    on_lossy: Engine, body: Callable[[Store], Awaitable[None]]
) -> None:
    """When a part runs out of room, all in its group are told so and nothing of them is there; then writing goes on."""

    async def story(store: Store) -> tuple[list[type], list[str], list[str]]:
        await put(store, "k", "before")
        disk = disk_of(on_lossy)
        answers = await asyncio.gather(put(store, "k", "small"), body(store), return_exceptions=True)
        disk.room = None
        meanwhile = await recorded(store, "k")
        await put(store, "k", "later")
        return [type(answer) for answer in answers], meanwhile, await recorded(store, "k")

    answers, meanwhile, later = on_lossy.run(story)

    assert answers == [NoRoom, NoRoom]
    assert meanwhile == ["before"]
    assert later == ["before", "later"]
