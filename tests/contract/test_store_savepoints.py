"""Parts of a transaction: one that fails is undone alone, and a full disk leaves nothing half-done."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from contract.engines import Engine, append, envelope, logged, put, recorded
from ringrift.kernel.errors import IdConflict, NoRoom
from ringrift.sim.disk import Disk
from ringrift.store.ports import Put, Store, Tx

MORE_THAN_THE_CACHE = 12_000_000
"""So large that SQLite spills it to the disk before the COMMIT."""


async def undone(tx: Tx) -> None:
    """Write a little of everything, and fail."""
    async with tx.savepoint():
        await tx.append([envelope("undone")])
        await tx.put([Put(kind="k", id="undone", body=b"x")])
        await tx.register_reader("undone", 0)
        raise ZeroDivisionError


async def put_in(tx: Tx, *ids: str, error: str = "") -> None:
    """Write each of *ids* in a part of its own, all in one part; *errors* fail."""
    async with tx.savepoint():
        for id in ids:
            async with tx.savepoint():
                await tx.put([Put(kind="k", id=id, body=b"x")])
                if id == error:
                    raise KeyError(id)


async def append_taken(tx: Tx) -> None:
    """Append an event, and another under an id that is taken."""
    async with tx.savepoint():
        await tx.append([envelope("first")])
        await tx.append([envelope("taken", b'{"other":1}')])


def test_a_part_that_fails_is_undone_alone(engine: Engine) -> None:
    """The writes of a failing part, of every kind, are undone; those before and after it stay."""

    async def story(store: Store) -> tuple[list[str], list[str], dict[str, int]]:
        async with store.begin() as tx:
            await tx.append([envelope("before")])
            with pytest.raises(ZeroDivisionError):
                await undone(tx)
            async with tx.savepoint():
                await tx.put([Put(kind="k", id="remains", body=b"x")])
            await tx.append([envelope("after")])
        async with store.read() as view:
            positions = dict(await view.positions())
        return await logged(store), await recorded(store, "k"), positions

    assert engine.run(story) == (["before", "after"], ["remains"], {})


def test_parts_may_have_parts(engine: Engine) -> None:
    """A part inside a part fails alone, and is undone with the outer one if that fails later."""

    async def story(store: Store) -> list[str]:
        async with store.begin() as tx:
            async with tx.savepoint():
                await put_in(tx, "a")
                with pytest.raises(KeyError):
                    await put_in(tx, "b", error="b")
                await put_in(tx, "c")
            with pytest.raises(KeyError):
                await put_in(tx, "d", "e", error="e")
        return await recorded(store, "k")

    assert engine.run(story) == ["a", "c"]


def test_parts_go_with_their_transaction(engine: Engine) -> None:
    """A part that succeeded is undone with the rest if the transaction fails; other transactions are not."""

    async def fail(store: Store) -> None:
        async with store.begin() as tx:
            async with tx.savepoint():
                await tx.put([Put(kind="k", id="gone", body=b"x")])
            raise ZeroDivisionError

    async def story(store: Store) -> tuple[list[object], list[str]]:
        answers = await asyncio.gather(
            put(store, "k", "one"), fail(store), put(store, "k", "two"), return_exceptions=True
        )
        return [type(answer) for answer in answers], await recorded(store, "k")

    assert engine.run(story) == ([type(None), ZeroDivisionError, type(None)], ["one", "two"])


def test_a_refused_verb_undoes_only_its_part(engine: Engine) -> None:
    """Our own errors end the part they happen in, with nothing of it left, and the transaction continues."""

    async def story(store: Store) -> list[str]:
        await append(store, "taken")
        async with store.begin() as tx:
            with pytest.raises(IdConflict):
                await append_taken(tx)
            await tx.append([envelope("second")])
        return await logged(store)

    assert engine.run(story) == ["taken", "second"]


def test_a_cancellation_in_a_part_undoes_the_transaction(engine: Engine) -> None:
    """Cancelling a task inside a part undoes the part and the transaction, and the store keeps working."""

    async def hang(store: Store, inside: asyncio.Event) -> None:
        async with store.begin() as tx:
            await tx.put([Put(kind="k", id="outer", body=b"x")])
            async with tx.savepoint():
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
    async with tx.savepoint():
        await tx.put([Put(kind="k", id="great", body=b"x" * MORE_THAN_THE_CACHE)])


async def gives_up(store: Store) -> None:
    """Let the error propagate."""
    async with store.begin() as tx:
        await tx.put([Put(kind="k", id="first", body=b"x")])
        await great(tx)


async def goes_on(store: Store) -> None:
    """Catch the error and continue, as if only the part were undone."""
    async with store.begin() as tx:
        await tx.put([Put(kind="k", id="first", body=b"x")])
        with pytest.raises(NoRoom):
            await great(tx)
        await tx.put([Put(kind="k", id="second", body=b"x")])


async def goes_on_apart(store: Store) -> None:
    """Catch the error, and continue in another part."""
    async with store.begin() as tx:
        await tx.put([Put(kind="k", id="first", body=b"x")])
        with pytest.raises(NoRoom):
            await great(tx)
        async with tx.savepoint():
            await tx.put([Put(kind="k", id="second", body=b"x")])


@pytest.mark.parametrize("body", [gives_up, goes_on, goes_on_apart])
def test_a_disk_that_fills_up_in_a_part_leaves_nothing(
    on_lossy: Engine, body: Callable[[Store], Awaitable[None]]
) -> None:
    """When a part runs out of room, its whole group is refused and leaves nothing; then writing continues."""

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
