"""An order is kept until its node has settled it, and every node sees only its own."""

from pathlib import Path

import pytest

from ringrift.cluster import orders
from ringrift.cluster.orders import ORDERS_MAX
from ringrift.events.daemon import Obeyed, Ordered
from ringrift.kernel.errors import UnknownName
from unit.work.world import World, play


def said(daemon: str = "fill", node: str = "here", action: str = "stop") -> Ordered:
    """Somebody orders something."""
    return Ordered(daemon=daemon, node=node, action=action, by="me")


async def given(world: World, *all_said: Ordered) -> None:
    """Give orders, each by itself."""
    for one in all_said:
        async with world.store.begin() as tx:
            await orders.give(tx, world.scribe, one)


async def waiting(world: World, node: str = "here") -> list[tuple[str, str]]:
    """What *node* is to do."""
    async with world.store.read() as view:
        return [(order.daemon, order.action) for order in await orders.of(view, node)]


def test_each_node_sees_its_own_orders_the_oldest_first(tmp_path: Path) -> None:
    """Also when names of nodes begin alike."""

    async def story(world: World) -> None:
        others = [said(node=node) for node in ("her", "here2", "here-2", "a", "z")]
        await given(world, said("fill"), *others, said("rate", action="restart"))

        assert await waiting(world) == [("fill", "stop"), ("rate", "restart")]
        assert await waiting(world, "here2") == [("fill", "stop")]
        assert await waiting(world, "nobody") == []
        assert len(await world.told(Ordered)) == 7

    play(tmp_path, story)


def test_an_order_is_settled_once_with_what_came_of_it(tmp_path: Path) -> None:
    """It is forgotten, and an event names it."""

    async def story(world: World) -> None:
        await given(world, said("fill"), said("rate"))
        async with world.store.read() as view:
            [first, _] = await orders.of(view, "here")

        async with world.store.begin() as tx:
            await orders.settle(tx, world.scribe, first, "it would not")

        assert await waiting(world) == [("rate", "stop")]
        assert await world.told(Obeyed) == [
            Obeyed(order=first.id, node="here", daemon="fill", action="stop", error="it would not")
        ]

    play(tmp_path, story)


def test_an_action_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """And nothing is written."""

    async def story(world: World) -> None:
        with pytest.raises(UnknownName, match="unknown action 'dance'; known: clear, restart, start, stop"):
            await given(world, said(action="dance"))

        assert await world.told() == []
        assert await waiting(world) == []

    play(tmp_path, story)


def test_of_very_many_orders_some_are_taken_at_a_time(tmp_path: Path) -> None:
    """The others wait for the next look."""

    async def story(world: World) -> None:
        await given(world, *[said(str(number)) for number in range(ORDERS_MAX + 3)])

        assert len(await waiting(world)) == ORDERS_MAX

    play(tmp_path, story)
