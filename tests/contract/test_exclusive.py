"""Roles of programs on a real store: one process at a time holds each, and who dies or sleeps loses it."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

from contract.engines import HandClock, run
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import open_store
from ringrift.store.ports import Store
from ringrift.work import processes
from ringrift.work.exclusive import PREFIX, Exclusive
from ringrift.work.processes import Process


def story(path: Path, tell: Callable[[Store, HandClock], Awaitable[None]]) -> None:
    """Run *tell* with a store in *path* and a clock that stands still."""

    async def opened() -> None:
        clock = HandClock()
        async with open_store(StoreSettings(path=str(path / "store.db")), clock) as store:
            await tell(store, clock)

    run(opened())


def test_a_role_is_one_process_at_a_time(tmp_path: Path) -> None:
    """It is renewed while it is held, several may be held at once, and giving one back leaves the others."""

    async def tell(store: Store, clock: HandClock) -> None:
        me, other = (Exclusive(store, clock, process, "n") for process in _two())
        assert await me.take("a", metadata={"why": "test"})
        assert await me.take("b")
        assert not await other.take("a")
        for _ in range(10):
            clock.seconds += 30.0
            assert await me.renew() == []
            assert not await other.take("a")
        holder = await other.holder("a")
        assert holder is not None
        assert (holder.process.pid, holder.metadata) == (os.getpid(), {"why": "test"})

        assert await me.give("a")
        assert not await me.give("a")
        assert (await other.take("a"), await other.take("b")) == (True, False)
        assert (me.holds("a"), me.holds("b"), me.held()) == (False, True, ["b"])
        await me.close()
        assert await other.take("b")

    story(tmp_path, tell)


def test_a_role_that_nobody_renews_can_be_taken(tmp_path: Path) -> None:
    """The holder stops trusting itself first, who watched takes it, and the sleeper finds out when it wakes."""

    async def tell(store: Store, clock: HandClock) -> None:
        me, other = (Exclusive(store, clock, process, "n") for process in _two())
        await me.take("a")
        assert not await other.take("a")
        clock.seconds += 89.0
        assert not me.holds("a")
        assert not await other.take("a")
        clock.seconds += 1.0

        assert await other.holder("a") is None
        assert await other.take("a")
        assert await me.renew() == ["a"]
        assert not await me.take("a")
        assert await me.take("a", force=True)
        assert await other.renew() == ["a"]

    story(tmp_path, tell)


def test_a_role_of_a_dead_process_is_free_at_once(tmp_path: Path) -> None:
    """Nobody waits for a process that has ended, be its number in use again or not."""

    child = subprocess.Popen(["sleep", "60"])

    async def tell(store: Store, clock: HandClock) -> None:
        process = processes.find(child.pid)
        assert process is not None
        dying, other = Exclusive(store, clock, process, "n"), Exclusive(store, clock, _two()[0], "n")
        await dying.take("a")
        assert not await other.take("a")
        child.send_signal(signal.SIGKILL)
        child.wait()

        assert await other.take("a")

    story(tmp_path, tell)


def test_a_starting_coordinator_takes_no_role_of_a_program(tmp_path: Path) -> None:
    """It frees every row of the store, but the program lives: nobody else gets its role, and it has it again soon."""

    async def tell(store: Store, clock: HandClock) -> None:
        me, other = (Exclusive(store, clock, process, "n") for process in _two())
        await me.take("a")
        async with store.begin() as tx:
            await tx.drop(None)

        assert not await other.take("a")
        assert await me.renew() == []
        async with store.read() as view:
            [row] = await view.roles()
        assert (row.role, row.term, bool(row.holder)) == (f"{PREFIX}a", 2, True)
        assert me.holds("a")

    story(tmp_path, tell)


def test_many_who_take_at_once_have_one_role(tmp_path: Path) -> None:
    """In one process all of them have it and it stays its own; of two processes only one has."""

    async def tell(store: Store, clock: HandClock) -> None:
        me, other = (Exclusive(store, clock, process, "n") for process in _two())
        mine = asyncio.gather(*(me.take("a") for _ in range(10)))
        theirs = asyncio.gather(*(other.take("a") for _ in range(10)))
        won = {(await mine)[0], (await theirs)[0]}

        assert won == {True, False}
        assert (await me.renew(), await other.renew()) == ([], [])
        assert me.holds("a") is not other.holds("a")

    story(tmp_path, tell)


def _two() -> tuple[Process, Process]:
    """Two living processes: this one, and its parent."""
    mine, parent = processes.find(os.getpid()), processes.find(os.getppid())
    assert mine is not None
    assert parent is not None
    return mine, parent
