"""A node runs the commands issued to it, its own and no others, and publishes the outcome of each."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from ringrift.cluster import daemon_commands
from ringrift.cluster.daemon_commands import DaemonCommand
from ringrift.daemons.run_commands import _LIFE_SECONDS, SPEC, _run_command, run_commands
from ringrift.events.daemon import CommandDone, CommandIssued
from ringrift.supervision.supervisor import Supervisor
from unit.supervision.watched import PARTS, loop_clock, serving, supervisor, ticking, undisturbed
from unit.work.world import World, play
from wait import wait_until


def make_command(action: str, daemon: str = "one") -> DaemonCommand:
    """Return a command for this node."""
    return DaemonCommand(id="o", node="here", daemon=daemon, action=action)


async def issue(world: World, action: str, daemon: str = "one", node: str = "here") -> None:
    """Issue a command to *node*."""
    async with world.store.begin() as tx:
        await daemon_commands.issue(
            tx, world.envelopes, CommandIssued(daemon=daemon, node=node, action=action, by="me")
        )


def parts(world: World, sup: Supervisor) -> dict[str, object]:
    """Return the parts that the daemon needs."""
    own = {
        "node_id": "here",
        "store": world.store,
        "router": world.router,
        "envelopes": world.envelopes,
        "supervisor": sup,
    }
    return PARTS | own


async def log(world: World) -> list[tuple[str, str, str]]:
    """Return the outcomes of the commands so far."""
    return [
        (event.daemon, event.action, event.error)
        for event in await world.events(CommandDone)
        if isinstance(event, CommandDone)
    ]


async def settled(world: World, count: int) -> bool:
    """Return whether so many commands have an outcome."""
    return len(await log(world)) >= count


def test_each_action_is_carried_out(tmp_path: Path) -> None:
    """Stopped, started, started again and cleared; the daemon beside it does not notice."""

    async def story(world: World) -> None:
        sup = supervisor(world, clock=loop_clock())
        async with sup.run([serving("one"), serving("two")], PARTS, "full"):
            assert await _run_command(sup, make_command("stop")) == ""
            assert sup.status("one").state == "stopped"
            assert await _run_command(sup, make_command("start")) == ""
            assert await _run_command(sup, make_command("restart")) == ""
            assert await _run_command(sup, make_command("clear")) == ""
            assert (sup.status("one").state, sup.status("one").restarts) == ("running", 3)
            assert undisturbed(sup, "two")

    play(tmp_path, story, simulated=True)


def test_impossible_commands_are_refused_by_name(tmp_path: Path) -> None:
    """An unknown daemon, one that was given up, one that does not end, and the daemon that runs the commands."""

    async def story(world: World) -> None:
        release = asyncio.Event()

        async def fails() -> None:
            raise ValueError("no")

        async def clings(*, alive: Callable[[], None]) -> None:
            alive()
            try:
                await asyncio.Event().wait()
            finally:
                await release.wait()

        sup = supervisor(world, clock=loop_clock())
        async with sup.run([ticking("bad", fails), serving("leaky", clings, stop_seconds_max=1.0)], PARTS, "full"):
            await wait_until(lambda: sup.status("bad").state == "failed")

            assert "unknown daemon 'one'; known: bad, leaky" in await _run_command(sup, make_command("restart"))
            assert "failed more than 2 times" in await _run_command(sup, make_command("start", "bad"))
            assert "still runs" in await _run_command(sup, make_command("stop", "leaky"))
            assert "runs the commands itself" in await _run_command(sup, make_command("stop", "run_commands"))
            release.set()

    play(tmp_path, story, simulated=True)


def test_waiting_and_new_commands_are_run(tmp_path: Path) -> None:
    """One that was issued before the node was there, and one while it runs; others' are left alone."""

    async def story(world: World) -> None:
        await issue(world, "stop")
        await issue(world, "stop", "two", node="elsewhere")
        sup = supervisor(world)
        async with sup.run([serving("one"), serving("two"), SPEC], parts(world, sup), "full"):
            await wait_until(lambda: settled(world, 1))
            assert sup.status("one").state == "stopped"

            await issue(world, "start")
            await issue(world, "restart", "missing")
            await wait_until(lambda: settled(world, 3))

            assert sup.status("one").state == "running"
            assert undisturbed(sup, "two", "run_commands")
        first, second, third = await log(world)
        assert (first, second) == (("one", "stop", ""), ("one", "start", ""))
        assert third[2].startswith("unknown daemon 'missing'")
        await world.router.close()

    play(tmp_path, story)


@pytest.mark.parametrize("seconds", [0.0, 200.0])
def test_a_slow_command_is_no_hang(tmp_path: Path, seconds: float) -> None:
    """While a daemon takes its time to stop, the one that runs the commands shows progress."""

    async def story(world: World) -> float:
        signs: list[float] = []

        async def slow(*, alive: Callable[[], None]) -> None:
            alive()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(seconds)  # of virtual time

        clock = loop_clock()
        sup = supervisor(world, clock=clock)
        async with sup.run([serving("one", slow, stop_seconds_max=300.0)], PARTS, "full"):
            await issue(world, "stop")
            obeying = asyncio.get_running_loop().create_task(
                run_commands(
                    store=world.store,
                    router=world.router,
                    envelopes=world.envelopes,
                    supervisor=sup,
                    alive=lambda: signs.append(clock.tick()),
                )
            )
            await wait_until(lambda: settled(world, 1), 300.0)  # of virtual time
            obeying.cancel()
        await world.router.close()
        return max((b - a for a, b in pairwise(signs)), default=0.0)

    assert play(tmp_path, story, simulated=True) <= _LIFE_SECONDS
