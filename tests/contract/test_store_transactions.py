"""Transactions: bodies run alone, commit together, fail apart, wait in a bounded queue and cannot block it."""

import asyncio

import pytest

from contract.engines import Door, Engine, append, envelope, logged, put, recorded, run, settle
from ringrift.kernel.errors import Backpressure, RingriftError
from ringrift.store.ports import RESERVED, Put, Store
from wait import wait_until

TX_SECONDS = 0.05


async def hang(store: Store, entered: asyncio.Event | None = None) -> None:
    """Write something, and never leave the transaction."""
    async with store.begin() as tx:
        await tx.put([Put(kind="k", id="hung", body=b"")])
        if entered is not None:
            entered.set()
        await asyncio.get_running_loop().create_future()


async def blocked(store: Store) -> tuple[asyncio.Event, "asyncio.Task[None]"]:
    """A transaction that holds the store until its event is set."""
    gate = asyncio.Event()

    async def body() -> None:
        async with store.begin() as tx:
            await tx.put([Put(kind="k", id="blocker", body=b"")])
            await gate.wait()

    task = asyncio.create_task(body())
    await settle()
    return gate, task


def test_nothing_is_acknowledged_before_it_is_durable(engine: Engine) -> None:
    """Until COMMIT returns the writer waits, no waiter is woken, no reader sees the change and the position stays."""

    async def story() -> tuple[list[bool], int, list[str]]:
        door = Door()
        async with engine.open(offload=door.offload) as store:
            door.opened.clear()
            writing = asyncio.create_task(append(store, "a"))
            waiting = asyncio.create_task(store.wait(0, 60))
            await settle()
            early = [writing.done(), waiting.done(), store.position > 0]
            visible = await logged(store) if engine.disk is None else []
            door.opened.set()
            [published] = await writing
            return early, await waiting - published.position, visible

    assert run(story()) == ([False, False, False], 0, [])


def test_a_failed_body_undoes_only_itself(engine: Engine) -> None:
    """When bodies share one COMMIT, the one that fails leaves nothing and undoes no other."""

    async def story() -> tuple[int, list[object], list[str]]:
        door = Door()
        async with engine.open(offload=door.offload) as store:

            async def body(name: str, fails: bool) -> None:
                async with store.begin() as tx:
                    await tx.append([envelope(name)])
                    await asyncio.sleep(0)
                    if fails:
                        raise ZeroDivisionError(name)

            bodies = (body(name, name == "b") for name in "abc")
            answers = await asyncio.gather(*bodies, return_exceptions=True)
            return door.commits, [type(answer) for answer in answers], await logged(store)

    commits, answers, ids = run(story())

    assert commits == 1
    assert answers == [type(None), ZeroDivisionError, type(None)]
    assert ids == ["a", "c"]


def test_bodies_run_one_at_a_time(engine: Engine) -> None:
    """A body sees no other body's half, though each gives way in the middle."""

    async def story(store: Store) -> bytes:
        async def count() -> None:
            async with store.begin() as tx:
                result = (await tx.get("k", ["n"])).get("n", b"0")
                await asyncio.sleep(0)
                await tx.put([Put(kind="k", id="n", body=str(int(result) + 1).encode())])

        await asyncio.gather(*(count() for _ in range(30)))
        async with store.read() as view:
            return (await view.get("k", ["n"]))["n"]

    assert engine.run(story) == b"30"


def test_a_view_is_a_snapshot(on_file: Engine) -> None:
    """A commit while a view is open does not appear in it, but in the next one."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await append(store, "a")
        async with store.read() as view:
            before = [e.id for e in await view.read(0, 9)]
            await append(store, "b")
            assert [e.id for e in await view.read(0, 9)] == before
        return before, await logged(store)

    assert on_file.run(story) == (["a"], ["a", "b"])


def test_a_body_that_hangs_is_ended_when_others_wait(engine: Engine) -> None:
    """A transaction that exceeds its time while others wait is undone, and the store continues."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        hanging = asyncio.create_task(hang(store))
        await settle()
        await append(store, "a")
        await asyncio.wait((hanging,))
        await append(store, "b")
        return await logged(store), await recorded(store, "k")

    assert engine.run(story, tx_seconds_max=TX_SECONDS) == (["a", "b"], [])


def test_a_body_that_hung_gets_an_error_and_is_not_cancelled(engine: Engine) -> None:
    """A transaction that took too long raises an error that can be caught, counted and retried like any other."""

    async def story(store: Store) -> str:
        async def caught() -> str:
            try:
                await hang(store)
            except RingriftError as late:
                return str(late)
            return ""

        hanging = asyncio.create_task(caught())
        await settle()
        await append(store, "a")
        await asyncio.wait((hanging,))
        assert not hanging.cancelled()
        return hanging.result()

    assert f"{TX_SECONDS:g} s" in engine.run(story, tx_seconds_max=TX_SECONDS)


def test_a_slow_body_is_not_ended_while_no_other_waits(engine: Engine) -> None:
    """A transaction may exceed its time as long as no other waits for it."""

    async def story(store: Store) -> list[str]:
        loop = asyncio.get_running_loop()
        async with store.begin() as tx:
            await tx.put([Put(kind="k", id="slow", body=b"")])
            end = loop.time() + 3 * TX_SECONDS
            await wait_until(lambda: loop.time() > end)
        return await recorded(store, "k")

    assert engine.run(story, tx_seconds_max=TX_SECONDS) == ["slow"]


def test_one_too_many_waiters_are_refused(engine: Engine) -> None:
    """Beyond the limit a transaction is refused at once, by name and number; those that wait are served."""

    async def story(store: Store) -> tuple[Backpressure, list[str]]:
        gate, blocker = await blocked(store)
        waiting = [asyncio.create_task(append(store, id)) for id in "ab"]
        await settle()
        with pytest.raises(Backpressure) as refused:
            await append(store, "c")
        gate.set()
        await asyncio.gather(blocker, *waiting)
        await append(store, "d")
        return refused.value, await logged(store)

    refused, ids = engine.run(story, waiting_max=2)

    assert refused.limit == 2
    assert ids == ["a", "b", "d"]


def test_reserved_places_are_left_when_the_queue_is_full(engine: Engine) -> None:
    """The node's own transactions wait where others are refused."""

    async def story(store: Store) -> list[str]:
        async def append_reserved() -> None:
            RESERVED.set(True)
            await append(store, "b")

        gate, blocker = await blocked(store)
        waiting = [asyncio.create_task(append(store, "a"))]
        await settle()
        waiting.append(asyncio.create_task(append_reserved()))
        await settle()
        with pytest.raises(Backpressure):
            await append(store, "c")
        gate.set()
        await asyncio.gather(blocker, *waiting)
        return await logged(store)

    assert engine.run(story, waiting_max=1) == ["a", "b"]


def test_a_full_queue_does_not_stop_the_commits(engine: Engine) -> None:
    """When the queue is full at the moment in which a body ends, the ended bodies are committed nevertheless."""

    async def story(store: Store) -> list[type]:
        gate, blocker = await blocked(store)
        waiting = [asyncio.create_task(append(store, id)) for id in "ab"]
        await settle()
        gate.set()
        # These arrive in the very step in which the blocker leaves, before its COMMIT can queue.
        waiting += [asyncio.create_task(append(store, id)) for id in "cdef"]
        async with asyncio.timeout(2):
            answers = await asyncio.gather(blocker, *waiting, return_exceptions=True)
        return [type(answer) for answer in answers[:3]]

    assert engine.run(story, waiting_max=2) == [type(None), list, list]


def test_cancelled_waiters_do_not_fill_the_queue(engine: Engine) -> None:
    """A waiter that was cancelled no longer counts against the limit."""

    async def story(store: Store) -> list[str]:
        gate, blocker = await blocked(store)
        gone = [asyncio.create_task(append(store, id)) for id in "ab"]
        await settle()
        for waiter in gone:
            waiter.cancel()
        await settle()
        waiting = asyncio.create_task(append(store, "c"))
        await settle()
        gate.set()
        await asyncio.gather(blocker, waiting)
        return await logged(store)

    assert engine.run(story, waiting_max=2) == ["c"]


@pytest.mark.parametrize("rounds", range(6))
def test_a_cancelled_waiter_keeps_no_other_from_its_turn(engine: Engine, rounds: int) -> None:
    """Whenever a waiter is cancelled, before its turn, in its turn or at its COMMIT, the others are served."""

    async def story(store: Store) -> list[str]:
        gate, blocker = await blocked(store)
        first, second = (asyncio.create_task(append(store, id)) for id in "ab")
        await settle()
        gate.set()
        for _ in range(rounds):
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(blocker, second)
        await append(store, "c")
        return [id for id in await logged(store) if id != "a"]

    assert engine.run(story) == ["b", "c"]


def test_a_body_that_is_cancelled_is_undone(engine: Engine) -> None:
    """Cancelling a task inside its transaction leaves nothing of it."""

    async def story(store: Store) -> list[str]:
        entered = asyncio.Event()
        hanging = asyncio.create_task(hang(store, entered))
        await entered.wait()
        hanging.cancel()
        await asyncio.wait((hanging,))
        await put(store, "k", "after")
        return await recorded(store, "k")

    assert engine.run(story) == ["after"]


def test_closing_ends_every_transaction(engine: Engine) -> None:
    """Every transaction under way when the store closes ends with a result, and acknowledged ones are there."""

    async def story() -> set[str]:
        async with engine.open() as store:
            writing = {str(number): asyncio.create_task(append(store, str(number))) for number in range(20)}
            await asyncio.sleep(0)
            late = asyncio.create_task(append(store, "late"))
        answers = await asyncio.gather(*writing.values(), late, return_exceptions=True)
        assert all(isinstance(answer, list | RingriftError) for answer in answers)
        return {id for id, task in writing.items() if task.exception() is None}

    acknowledged = run(story())

    assert acknowledged <= set(engine.run(logged))
