"""Roles of programs on a real store: one process at a time holds each, and a dead or sleeping holder loses it."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

from contract.engines import ManualClock, run
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import open_store
from ringrift.store.ports import Store
from ringrift.store.roles import ROLE_PREFIX
from ringrift.work import processes
from ringrift.work.processes import Process
from ringrift_compat.tasks.program_roles import _HOLDERS, ProgramRoles


def run_scenario(path: Path, scenario: Callable[[Store, ManualClock], Awaitable[None]]) -> None:
    """Run *scenario* with a store in *path* and a clock that stands still."""

    async def opened() -> None:
        clock = ManualClock()
        async with open_store(StoreSettings(path=str(path / "store.db")), clock) as store:
            await scenario(store, clock)

    run(opened())


def test_a_role_is_one_process_at_a_time(tmp_path: Path) -> None:
    """It is renewed while it is held, several may be held at once, and giving one back leaves the others."""

    async def scenario(store: Store, clock: ManualClock) -> None:
        me, other = (ProgramRoles(store, clock, process, "n") for process in _two())
        assert await me.take("a", metadata={"why": "test"})
        assert await me.take("b")
        assert not await other.take("a")
        for _ in range(10):
            clock.seconds += 30.0
            assert await me.renew() == []
            assert not await other.take("a")
        async with store.read() as view:
            holder = await _HOLDERS.get(view, "a")
        assert holder is not None
        assert (holder.process.pid, holder.metadata) == (os.getpid(), {"why": "test"})

        assert await me.release("a")
        assert not await me.release("a")
        assert (await other.take("a"), await other.take("b")) == (True, False)
        assert (me.holds("a"), me.holds("b"), me.current()) == (False, True, ["b"])
        await me.close()
        assert await other.take("b")

    run_scenario(tmp_path, scenario)


def test_a_role_that_is_not_renewed_can_be_taken(tmp_path: Path) -> None:
    """The holder stops trusting itself first, the observer takes the role, and the sleeper notices when it wakes."""

    async def scenario(store: Store, clock: ManualClock) -> None:
        me, other = (ProgramRoles(store, clock, process, "n") for process in _two())
        await me.take("a")
        assert not await other.take("a")
        clock.seconds += 89.0
        assert not me.holds("a")
        assert not await other.take("a")
        clock.seconds += 1.0

        assert await other.take("a")
        assert await me.renew() == ["a"]
        assert not await me.take("a")
        assert await me.take("a", force=True)
        assert await other.renew() == ["a"]

    run_scenario(tmp_path, scenario)


def test_a_role_of_a_dead_process_is_free_at_once(tmp_path: Path) -> None:
    """A process that has ended is not waited for, whether its process id is in use again or not."""

    child = subprocess.Popen(["sleep", "60"])

    async def scenario(store: Store, clock: ManualClock) -> None:
        process = processes.find(child.pid)
        assert process is not None
        dying, other = ProgramRoles(store, clock, process, "n"), ProgramRoles(store, clock, _two()[0], "n")
        await dying.take("a")
        assert not await other.take("a")
        child.send_signal(signal.SIGKILL)
        child.wait()

        assert await other.take("a")

    run_scenario(tmp_path, scenario)


def test_a_starting_coordinator_takes_no_role_of_a_program(tmp_path: Path) -> None:
    """It frees every row of the store, but the program lives: no other gets its role, and it soon holds it again."""

    async def scenario(store: Store, clock: ManualClock) -> None:
        me, other = (ProgramRoles(store, clock, process, "n") for process in _two())
        await me.take("a")
        async with store.begin() as tx:
            await tx.release_roles(None)

        assert not await other.take("a")
        assert await me.renew() == []
        async with store.read() as view:
            [row] = await view.roles()
        assert (row.role, row.term, bool(row.holder)) == (f"{ROLE_PREFIX}a", 2, True)
        assert me.holds("a")

    run_scenario(tmp_path, scenario)


def test_concurrent_takers_share_one_role(tmp_path: Path) -> None:
    """All takers in one process hold it and it stays with that process; of two processes only one holds it."""

    async def scenario(store: Store, clock: ManualClock) -> None:
        me, other = (ProgramRoles(store, clock, process, "n") for process in _two())
        mine = asyncio.gather(*(me.take("a") for _ in range(10)))
        theirs = asyncio.gather(*(other.take("a") for _ in range(10)))
        won = {(await mine)[0], (await theirs)[0]}

        assert won == {True, False}
        assert (await me.renew(), await other.renew()) == ([], [])
        assert me.holds("a") is not other.holds("a")

    run_scenario(tmp_path, scenario)


def _two() -> tuple[Process, Process]:
    """Two living processes: this one, and its parent."""
    mine, parent = processes.find(os.getpid()), processes.find(os.getppid())
    assert mine is not None
    assert parent is not None
    return mine, parent
