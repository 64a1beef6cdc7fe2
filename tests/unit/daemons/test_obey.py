"""A node carries out the orders that it is given, its own and no others, and says what came of each."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from ringrift.cluster import orders
from ringrift.cluster.orders import Order
from ringrift.daemons.obey import LIFE_SECONDS, SPEC, carry_out, obey
from ringrift.events.daemon import Obeyed, Ordered
from ringrift.supervision.supervisor import Supervisor
from unit.supervision.watched import PARTS, loop_clock, serving, supervisor, ticking, undisturbed
from unit.work.world import World, play
from waiting import wait_until


def order(action: str, daemon: str = "one") -> Order:
    """What this node is to do."""
    return Order(id="o", node="here", daemon=daemon, action=action)


async def give(world: World, action: str, daemon: str = "one", node: str = "here") -> None:
    """Order something."""
    async with world.store.begin() as tx:
        await orders.give(tx, world.scribe, Ordered(daemon=daemon, node=node, action=action, by="me"))


def parts(world: World, sup: Supervisor) -> dict[str, object]:
    """What the daemon asks for."""
    own = {"node_id": "here", "store": world.store, "router": world.router, "scribe": world.scribe, "supervisor": sup}
    return PARTS | own


async def told(world: World) -> list[tuple[str, str, str]]:
    """What came of the orders so far."""
    return [(said.daemon, said.action, said.error) for said in await world.told(Obeyed) if isinstance(said, Obeyed)]


async def settled(world: World, count: int) -> bool:
    """Whether something came of so many."""
    return len(await told(world)) >= count


def test_each_action_is_carried_out(tmp_path: Path) -> None:
    """Stopped, started, started again and cleared; the daemon beside it does not notice."""

    async def story(world: World) -> None:
        sup = supervisor(world, clock=loop_clock())
        async with sup.run([serving("one"), serving("two")], PARTS, "full"):
            assert await carry_out(sup, order("stop")) == ""
            assert sup.report("one").state == "stopped"
            assert await carry_out(sup, order("start")) == ""
            assert await carry_out(sup, order("restart")) == ""
            assert await carry_out(sup, order("clear")) == ""
            assert (sup.report("one").state, sup.report("one").restarts) == ("running", 3)
            assert undisturbed(sup, "two")

    play(tmp_path, story, simulated=True)


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    """A daemon that nobody has, one that was given up, one that does not end, and the one that carries out orders."""

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
            await wait_until(lambda: sup.report("bad").state == "failed")

            assert "unknown daemon 'one'; known: bad, leaky" in await carry_out(sup, order("restart"))
            assert "failed more than 2 times" in await carry_out(sup, order("start", "bad"))
            assert "still runs" in await carry_out(sup, order("stop", "leaky"))
            assert "carries out the orders itself" in await carry_out(sup, order("stop", "obey"))
            release.set()

    play(tmp_path, story, simulated=True)


def test_orders_are_carried_out_as_they_come_and_those_that_wait(tmp_path: Path) -> None:
    """One that was given before the node was there, and one that is given while it runs; others' are left alone."""

    async def story(world: World) -> None:
        await give(world, "stop")
        await give(world, "stop", "two", node="elsewhere")
        sup = supervisor(world)
        async with sup.run([serving("one"), serving("two"), SPEC], parts(world, sup), "full"):
            await wait_until(lambda: settled(world, 1))
            assert sup.report("one").state == "stopped"

            await give(world, "start")
            await give(world, "restart", "nobody")
            await wait_until(lambda: settled(world, 3))

            assert sup.report("one").state == "running"
            assert undisturbed(sup, "two", "obey")
        first, second, third = await told(world)
        assert (first, second) == (("one", "stop", ""), ("one", "start", ""))
        assert third[2].startswith("unknown daemon 'nobody'")
        await world.router.close()

    play(tmp_path, story)


@pytest.mark.parametrize("seconds", [0.0, 200.0])
def test_an_order_that_takes_long_is_no_silence(tmp_path: Path, seconds: float) -> None:
    """While a daemon takes its time to stop, the one that carries out orders shows life."""

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
            await give(world, "stop")
            obeying = asyncio.get_running_loop().create_task(
                obey(node_id="here", store=world.store, router=world.router, scribe=world.scribe, supervisor=sup,
                     alive=lambda: signs.append(clock.tick()))
            )  # fmt: skip
            await wait_until(lambda: settled(world, 1), 300.0)  # of virtual time
            obeying.cancel()
        await world.router.close()
        return max((b - a for a, b in pairwise(signs)), default=0.0)

    assert play(tmp_path, story, simulated=True) <= LIFE_SECONDS
